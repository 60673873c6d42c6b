#include "results/decisions/cost_matrix.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::results::cost_matrix_test {
namespace {

using test::contains;

const std::vector<std::string> kClasses{"well", "ill, mild", "ill"};

// The costs that a file with this text gives.
engine::CostMatrix read(const std::string& text) {
  const TemporaryFolder folder;
  const Path file = folder.path() / "costs.csv";
  std::ofstream(file, std::ios::binary) << text;
  return read_cost_matrix(file.string(), kClasses);
}

std::string find_error(const std::string& text) {
  try {
    read(text);
    return "";
  } catch (const DataError& error) {
    const std::string what = error.what();
    return what.substr(what.find("costs.csv"));
  }
}

engine::LabelledLogits draw_scores(std::int64_t outputs, int samples) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 2);
  engine::LabelledLogits scores;
  scores.outputs = outputs;
  for (int i = 0; i < samples; ++i) {
    const std::int64_t classes = scores.classes();
    scores.labels.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(classes)));
    for (std::int64_t c = 0; c < outputs; ++c) {
      scores.logits.push_back(static_cast<float>(noise(random)));
    }
  }
  return scores;
}

// The probabilities of a sample, in double precision.
std::vector<double> find_probabilities(const engine::LabelledLogits& scores, std::size_t sample,
                                       double temperature) {
  std::vector<double> p;
  if (scores.outputs == 1) p.push_back(1);
  for (const float logit : scores.row(sample)) {
    p.push_back(std::exp(static_cast<double>(logit) / temperature));
  }
  double sum = 0;
  for (const double x : p) sum += x;
  for (double& x : p) x /= sum;
  return p;
}

}  // namespace

TEST_CASE("read_cost_matrix reads a row per true class, in any order") {
  const std::string text =
      "true,ill,well,\"ill, mild\"\n"
      "ill,0,100,10\n"
      "well,4,0,1.5\n"
      "\"ill, mild\",2,20,0\n";
  const std::vector<double> expected{0, 1.5, 4, 20, 0, 2, 100, 10, 0};
  CHECK(read(text).classes == 3);
  CHECK(read(text).costs == expected);
  // The table as spreadsheets write it.
  std::string windows = "\xEF\xBB\xBF";
  for (const char letter : text) windows += letter == '\n' ? "\r\n" : std::string(1, letter);
  CHECK(read(windows + "\r\n").costs == expected);
  CHECK(read("true;ill;well;ill, mild\nill;0;100;10\nwell;4;0;1.5\nill, mild;2;20;0\n").costs ==
        expected);
  CHECK(read(text).at(2, 0) == 100);
}

TEST_CASE("read_cost_matrix reads the header that an error message suggests without an error") {
  const std::string error = find_error("");
  const std::size_t from = error.find('`') + 1;
  const std::string header = error.substr(from, error.find('`', from) - from);
  CHECK(header == "true,well,\"ill, mild\",ill");
  CHECK(read(header + "\nwell,0,1,2\n\"ill, mild\",1,0,2\nill,9,9,0\n").at(2, 0) == 9);
}

TEST_CASE("read_cost_matrix: the error for many classes does not list them") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "costs.csv";
  std::ofstream(file) << "true,1\n";
  std::vector<std::string> classes;
  for (int i = 0; i < 3000; ++i) classes.push_back(std::to_string(i));
  try {
    read_cost_matrix(file.string(), classes);
    FAIL("a table without its classes is accepted");
  } catch (const DataError& error) {
    const std::string what = error.what();
    CHECK(contains(what, "expected a header of `true` and the 3000 classes, and a row"));
  }
}

TEST_CASE("read_cost_matrix: the error of what is not a table of all classes has the line") {
  const std::string header = "true,well,\"ill, mild\",ill\n", well = "well,0,1,2\n";
  const std::string mild = "\"ill, mild\",1,0,2\n", ill = "ill,9,9,0\n";
  CHECK(find_error(header + well + mild + ill) == "");
  CHECK(contains(find_error(""), "costs.csv: is empty; expected a header `true,well,"));
  CHECK(
      contains(find_error(header + well + mild),
               "costs.csv:3: the table has 2 rows below its header, and the model has 3 classes"));
  CHECK(contains(find_error(header + well + mild + well),
                 "costs.csv:4: names the class 'well' a second time; give each class one"));
  CHECK(contains(find_error(header + well + mild + "sick,1,2,3\n"),
                 "costs.csv:4: 'sick' is not a class of the model; expected a header"));
  CHECK(contains(find_error("true,well,ill\n" + well + mild + ill),
                 "costs.csv:1: the header has 3 cells; expected a header"));
  CHECK(contains(find_error("true,well,ill,ill\n" + well + mild + ill),
                 "costs.csv:1: names the class 'ill' a second time"));
  CHECK(contains(find_error(header + well + mild + "ill,9,9\n"),
                 "costs.csv:4: has 3 cells, the header has 4; give each class one column"));
  for (const char* cost : {"-1", "", "dear", "inf", "nan"}) {
    CHECK(contains(find_error(header + well + mild + concat("ill,9,", cost, ",0\n")),
                   concat("costs.csv:4: '", cost,
                          "' is not a cost; expected a number of at least "
                          "0")));
  }
  CHECK_THROWS_AS(read_cost_matrix("/nowhere/costs.csv", kClasses), DataError);
}

TEST_CASE("find_cost_file finds a name that ends in .csv, or a file that exists") {
  CHECK(find_cost_file("cost=costs.csv") == "costs.csv");
  CHECK(find_cost_file("cost=a/B.CSV") == "a/B.CSV");
  const TemporaryFolder folder;
  const std::string plain = (folder.path() / "costs").string();
  CHECK(find_cost_file("cost=" + plain) == "");
  std::ofstream(plain) << "x";
  CHECK(find_cost_file("cost=" + plain) == plain);
  for (const char* other : {"", "cost=1:20", "cost=", "cost=1", "sensitivity=0.9", "costs.csv"}) {
    CAPTURE(other);
    CHECK(find_cost_file(other) == "");
  }
}

TEST_CASE("make_cost_report computes costs and counts by probabilities in double precision") {
  for (const std::int64_t outputs : {1, 2, 4}) {
    CAPTURE(outputs);
    const engine::LabelledLogits scores = draw_scores(outputs, 300);
    const auto classes = static_cast<std::size_t>(scores.classes());
    const std::vector<std::string> all{"a", "b", "c", "d"};
    const std::vector<std::string> names(all.begin(), all.begin() + scores.classes());
    engine::CostMatrix costs{classes, {}};
    for (std::size_t k = 0; k < classes * classes; ++k) {
      costs.costs.push_back(k % (classes + 1) == 0 ? 0 : static_cast<double>(1 + k * k % 13));
    }
    const double temperature = 2.5;
    const CostReport report =
        make_cost_report("cost=x.csv", costs, names, temperature, "test", scores);
    double least_cost = 0, likeliest_cost = 0;
    std::int64_t correct = 0, differ = 0;
    engine::Confusion counts(scores.classes());
    for (std::size_t i = 0; i < scores.labels.size(); ++i) {
      const std::vector<double> p = find_probabilities(scores, i, temperature);
      std::vector<double> expected(classes);
      for (std::size_t k = 0; k < classes * classes; ++k) {
        expected[k % classes] += costs.costs[k] * p[k / classes];
      }
      const auto decided = std::min_element(expected.begin(), expected.end()) - expected.begin();
      const auto top = std::max_element(p.begin(), p.end()) - p.begin();
      const std::int32_t label = scores.labels[i];
      const auto row = static_cast<std::size_t>(label) * classes;
      least_cost += costs.costs[row + static_cast<std::size_t>(decided)];
      likeliest_cost += costs.costs[row + static_cast<std::size_t>(top)];
      correct += decided == label ? 1 : 0;
      differ += decided != top ? 1 : 0;
      counts.add(label, decided);
    }
    CHECK(differ > 20);
    CHECK(report.least_cost.cost == doctest::Approx(least_cost / 300));
    CHECK(report.likeliest.cost == doctest::Approx(likeliest_cost / 300));
    CHECK(report.least_cost.accuracy == doctest::Approx(static_cast<double>(correct) / 300));
    CHECK(report.least_cost.counts.matrix == count_confusions(counts).matrix);
    // Another temperature gives other decisions.
    const CostReport plain = make_cost_report("cost=x.csv", costs, names, 1, "test", scores);
    CHECK(plain.likeliest.counts.matrix == report.likeliest.counts.matrix);
    CHECK_FALSE(plain.least_cost.counts.matrix == report.least_cost.counts.matrix);
  }
}

TEST_CASE("show_costs has both decisions, and the counts by true and decided class") {
  engine::LabelledLogits scores;
  scores.outputs = 2;
  scores.logits = {0, 1, 0, -1, 0, -1, 0, -9};
  scores.labels = {1, 0, 1, 0};
  const CostReport report =
      make_cost_report("cost=x.csv", {2, {0, 1, 10, 0}}, {"well", "ill"}, 1, "test", scores);
  const std::string text =
      render_text(show_costs(report, "; stored in run/operating_point.json", false));
  CHECK(contains(text,
                 "operating point: cost=x.csv: the class of the least expected cost; "
                 "stored in run/operating_point.json\n"));
  // (10 for the third sample) / 4, and (1 for the second) / 4.
  CHECK(contains(text, "the likeliest class                      2.5000   75.00 %"));
  CHECK(contains(text, "the class of the least expected cost     0.2500   75.00 %"));
  CHECK(contains(text, "true \\ decided  well  ill\nwell               1    1\n"));
  CHECK_FALSE(contains(render_text(show_costs(report, "", true)), "decided  well"));
  CHECK(to_json(report).at("costs").dump() == "[[0.0,1.0],[10.0,0.0]]");
  CHECK(to_json(report).at("least_cost").at("confusion").dump() == "[[1,1],[0,2]]");
}

}  // namespace trainer::results::cost_matrix_test
