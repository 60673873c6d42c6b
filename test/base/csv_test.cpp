#include "base/formats/csv.h"

#include <doctest/doctest.h>

#include <limits>

namespace trainer {

TEST_CASE("csv_cell quotes fields with commas or quotes") {
  CHECK(csv_cell("cat") == "cat");
  CHECK(csv_cell("") == "");
  CHECK(csv_cell("a b") == "a b");
  CHECK(csv_cell("cat, black") == "\"cat, black\"");
  CHECK(csv_cell("the \"cat\"") == "\"the \"\"cat\"\"\"");
  // A field holds no line end, so that readers may take a line for a row.
  CHECK(csv_cell("a\nb").find('\n') == std::string::npos);
}

TEST_CASE("split_csv_row returns the texts that csv_cell wrote") {
  using Cells = std::vector<std::string>;
  const Cells cells{"cat", "", "cat, black", "the \"cat\"", ",", "\"", " a ", ""};
  std::string row;
  for (const std::string& cell : cells) row += (row.empty() ? "" : ",") + csv_cell(cell);
  CHECK(split_csv_row(row) == cells);
  CHECK(split_csv_row("") == Cells{""});
  CHECK(split_csv_row(",a") == Cells{"", "a"});
}

TEST_CASE("csv_number writes nine digits, which identify a float") {
  CHECK(csv_number(0.5) == "0.5");
  CHECK(csv_number(1.0 / 3) == "0.333333333");
  CHECK(csv_number(-1.5e-20) == "-1.5e-20");
  CHECK(csv_number(0.1F) == "0.100000001");
  CHECK(csv_number(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

}  // namespace trainer
