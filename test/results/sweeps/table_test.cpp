#include "results/sweeps/table.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/text.h"
#include "results/sweeps/support.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::results {
namespace {

using test::contains;
using test::FakeRun;
using test::FakeSweep;
using test::make_run;

TEST_CASE("table_csv and table_markdown and to_line have the same values") {
  const FakeSweep sweep({"parallel.gpus=1,2"});
  sweep.write("gpus=1", make_run(1, 0.5));
  const Summary summary = sweep.summary();
  const std::string csv = table_csv(summary);
  CHECK(csv.starts_with(
      "parallel.gpus,runs,replicas,accuracy,accuracy_low,accuracy_high,loss,images_per_"
      "second,total_seconds,"));
  CHECK(contains(csv, "\n1,1,1,0.9,"));
  CHECK(contains(csv, ",0.25,64,2,10,"));
  CHECK(contains(csv, "\n2,0,,,"));
  CHECK(contains(csv, ",not started\n"));
  const std::string markdown = table_markdown(summary);
  CHECK(markdown.starts_with("| gpus | accuracy | 95 % interval | loss | images/s |"));
  CHECK(contains(markdown, "| 0.2500 | 64.0 | 2.00 |"));
  CHECK(contains(markdown, "\nBest: gpus=1, accuracy 90.00 % ("));
  const auto json = nlohmann::json::parse(to_line(summary));
  CHECK(json["rows"][0]["images_per_second"] == 64);
  CHECK(json["rows"][1]["images_per_second"].is_null());
  CHECK(json["points"][0]["accuracy"] == 0.9);
  CHECK(json["points"][1]["state"] == "not started");
}

TEST_CASE("make_table repeats no column and shows intervals in one column, shares in percent") {
  const FakeSweep sweep({"parallel.gpus=1,2", "seed=1,2"});
  sweep.write("gpus=1_seed=1", make_run(1, 0.5, 80));
  sweep.write("gpus=1_seed=2", make_run(1, 0.5, 90));
  FakeRun two = make_run(2, 0.9, 85);
  two.wait_seconds = 0.225;
  sweep.write("gpus=2_seed=1", two);
  const Table cells = make_table(sweep.summary(), {0, 1});
  const auto cell = [&](std::size_t row, const std::string& heading) {
    const auto found = std::ranges::find(cells.header(), heading);
    return found == cells.header().end() ? "no column"
                                         : cells.rows()[row][found - cells.header().begin()];
  };
  CHECK(cell(0, "runs") == "2");  // not one of each row
  CHECK(cell(0, "replicas") == "no column");
  CHECK(cell(0, "accuracy") == "0.8500");
  CHECK(cell(0, "95 % interval") == "0.2147-1.0000");
  CHECK(cell(1, "data wait") == "25 %");
  CHECK(cell(1, "efficiency") == "56 %");
  CHECK(cell(0, "efficiency") == "-");
  std::ostringstream out;
  print_table(sweep.summary(), std::nullopt, out);
  CHECK(contains(out.str(), "\ngpus=2  input: 25 % of a step waits for data"));
  // On a terminal, columns are left out from the right until the table fits.
  const auto table_at = [&](int columns) {
    std::ostringstream narrow;
    print_table(sweep.summary(), columns, narrow);
    return narrow.str().substr(0, narrow.str().find("\n\n"));
  };
  const auto widest = [](const std::string& table) {
    std::size_t width = 0;
    for (const std::string& line : split_text(table, '\n')) width = std::max(width, line.size());
    return static_cast<int>(width);
  };
  const std::string whole = table_at(1000);
  CHECK(whole == out.str().substr(0, out.str().find("\n\n")));
  CHECK(table_at(widest(whole)) == whole);
  const auto header = [](const std::string& table) { return table.substr(0, table.find('\n')); };
  const std::string fitted = table_at(widest(whole) - 1);
  CHECK(header(fitted).size() < header(whole).size());
  CHECK(contains(fitted, "1 column is left out for the width of the terminal"));
  CHECK(static_cast<int>(header(table_at(40)).size()) <= 40);
  CHECK(contains(table_at(1), "gpus  runs"));  // the values and one column remain
  // A column has the number of replicas where the values do not have it.
  const FakeSweep all({"parallel.gpus=all"});
  all.write("gpus=all", make_run(2, 0.5));
  CHECK(make_table(all.summary(), {0}).header()[1] == "replicas");
}

}  // namespace
}  // namespace trainer::results
