#include "base/formats/table.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/text.h"

namespace trainer {
namespace {

std::string printed(const Table& table, const std::string& indent = "",
                    std::optional<int> columns = {}) {
  std::ostringstream out;
  table.print(out, indent, columns);
  return out.str();
}

}  // namespace

TEST_CASE("Table: columns are as wide as their widest cell, and lines do not end in spaces") {
  Table table({"name", "count", "note"}, {1});
  table.add({"a", "1,000", "long"});
  table.add({"largest", "2", ""});
  CHECK(printed(table) ==
        "name     count  note\n"
        "a        1,000  long\n"
        "largest      2\n");
  CHECK(printed(table, "> ").starts_with("> name     count  note\n> a  "));
}

TEST_CASE("Table: the widest column is broken at blanks where a line does not fit") {
  Table table({"name", "count", "note"}, {1});
  table.add({"a", "1,000", "some words that are too many for one line"});
  table.add({"b", "2", "one/word/that/is/wider/than/its/column"});
  CHECK(printed(table, "  ", 41) ==
        "  name  count  note\n"
        "  a     1,000  some words that are too\n"
        "               many for one line\n"
        "  b         2  one/word/that/is/wider/than/its/column\n");
  CHECK(printed(table, "  ", 200) == printed(table, "  "));
}

TEST_CASE("Table: widths count characters, not bytes, and a table without names has no header") {
  Table table({"", ""});
  table.add({"\xc3\xa4\xc3\xb6", "x"});
  table.add({"abc", "y"});
  CHECK(printed(table) == "\xc3\xa4\xc3\xb6   x\nabc  y\n");
}

TEST_CASE("Table with an empty list of columns and a caption aligns all columns to the left") {
  Table table({"name", "value"}, {}, "Results");
  table.add({"state", "1"});
  CHECK_FALSE(table.is_right(0));
  CHECK_FALSE(table.is_right(1));
}

TEST_CASE("Table aligns all columns from the first one of numbers to the right") {
  Table table({"name", "count", "share"}, NumbersFrom{1}, "Counts");
  table.add({"a", "1", "100 %"});
  CHECK(printed(table) == "name  count  share\na         1  100 %\n");
  CHECK_FALSE(table.is_right(0));
  CHECK(table.is_right(2));
  CHECK(table.caption() == "Counts");
  CHECK(table.header().front() == "name");
  REQUIRE(table.rows().size() == 1);
  CHECK(table.rows().front().back() == "100 %");
}

TEST_CASE("number texts have fixed or significant digits, percent with its unit, and commas") {
  CHECK(fixed(0.98149, 3) == "0.981");
  CHECK(fixed(-1.5, 0) == "-2");
  CHECK(significant(0.00123456, 3) == "0.00123");
  CHECK(significant(1e-5, 4) == "1e-05");
  CHECK(parse_real(significant(0.1, 17)) == 0.1);
  CHECK(percent(0.98123) == "98.12 %");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(-123) == "-123");
}

TEST_CASE("table: control characters and line breaks of cells are spelled out") {
  Table table({"na\nme", "count"}, {1});
  table.add({"a\x1b[31m", "1"});
  table.add({"d\xc3\xb6g", "22"});
  CHECK(printed(table) ==
        "na\\x0ame   count\n"
        "a\\x1b[31m      1\n"
        "d\xc3\xb6g           22\n");
}

}  // namespace trainer
