// The mean of several runs, by the program itself.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e::ensemble_test {
namespace {

using test::contains;

struct Runs {
  Workspace work;
  std::string config;
  Runs()
      : config(work.config(concat(kModel, "data: {format: idx, path: ", work.data(),
                                  "}\noptimizer: {sgd: {learning_rate: 0.05}}\n"
                                  "train: {max_steps: 8, batch_size: 16}\n"))) {
    for (const char* seed : {"1", "2", "3"}) {
      REQUIRE(run({"train", config, "--seed", seed, "--run-dir", path(seed), "--quiet"}).code == 0);
    }
  }
  Path path(const std::string& seed) const { return work / ("run" + seed); }
  std::string others() const { return path("2").string() + "," + path("3").string(); }
};

}  // namespace

TEST_CASE("predict --ensemble gives the mean of the probabilities of the runs") {
  const Runs runs;
  const auto predict = [&](const Arguments& more) {
    Arguments arguments{"predict", runs.path("1"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.lines();
  };
  const auto mean = predict({"--ensemble", runs.others()});
  std::vector<std::vector<Json>> alone;
  for (const char* seed : {"1", "2", "3"}) {
    alone.push_back(run({"predict", runs.path(seed), "--json"}).lines());
  }
  REQUIRE(mean.size() == alone[0].size());
  REQUIRE(mean.size() > 10);
  std::int64_t correct = 0, correct_without = 0;
  double loss = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    std::string best, best_without;
    double highest = -1, highest_without = -1;
    for (const auto& [name, value] : mean[i]["probabilities"].items()) {
      double p = 0;
      for (const auto& one : alone) p += one[i]["probabilities"][name].get<double>() / 3;
      CHECK(std::abs(value.get<double>() - p) < 1e-6);
      const double without = p * 3 - alone[1][i]["probabilities"][name].get<double>();
      if (p > highest) {
        highest = p;
        best = name;
      }
      if (without > highest_without) {
        highest_without = without;
        best_without = name;
      }
    }
    CHECK(mean[i]["class"] == best);
    CHECK(mean[i]["label"] == alone[0][i]["label"]);
    const std::string label = mean[i]["label"];
    correct += best == label ? 1 : 0;
    correct_without += best_without == label ? 1 : 0;
    loss -= std::log(mean[i]["probabilities"][label].get<double>());
  }

  const Result evaluated = run({"evaluate", runs.path("1"), "--ensemble", runs.others(), "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  const Json event = evaluated.event("ensemble");
  const auto count = static_cast<double>(mean.size());
  CHECK(event["accuracy"].get<double>() == doctest::Approx(static_cast<double>(correct) / count));
  CHECK(event["loss"].get<double>() == doctest::Approx(loss / count));
  REQUIRE(event["runs"].size() == 3);
  CHECK(event["runs"][1]["without"]["accuracy"].get<double>() ==
        doctest::Approx(static_cast<double>(correct_without) / count));
  const Json single = run({"evaluate", runs.path("2"), "--json"}).event("evaluated");
  CHECK(event["runs"][1]["alone"]["accuracy"] == single["accuracy"]);
  CHECK(event["runs"][1]["alone"]["loss"].get<double>() ==
        doctest::Approx(single["loss"].get<double>()));
  const Result text = run({"evaluate", runs.path("1"), "--ensemble", runs.others()});
  CHECK(contains(text.out, "test: mean of 3 runs: loss "));
  CHECK(contains(text.out, "without it"));
  const Result brief = run({"evaluate", runs.path("1"), "--ensemble", runs.others(), "--quiet"});
  CHECK(brief.out == text.out.substr(0, text.out.find('\n') + 1));
}

TEST_CASE("predict --ensemble ignores stored results of evaluate with a note") {
  const Runs runs;
  const Arguments arguments{"predict", runs.path("1"), "--json", "--ensemble", runs.others()};
  const Result before = run(arguments);
  CHECK_FALSE(contains(before.err, "is not used"));
  write_file_atomic(runs.path("1") / "operating_point.json", std::string("{}\n"));
  write_file_atomic(runs.path("2") / "calibration.json", std::string("{}\n"));
  const Result after = run(arguments);
  CHECK(after.code == 0);
  CHECK(after.out == before.out);
  const std::string unused = " is not used by --ensemble";
  CHECK(contains(after.err, runs.path("1").string() + ": operating_point.json" + unused));
  CHECK(contains(after.err, runs.path("2").string() + ": calibration.json" + unused));
  CHECK_FALSE(contains(after.err, runs.path("3").string() + ": calibration"));
  const Result excluded =
      run({"predict", runs.path("1"), "--ensemble", runs.others(), "--uncalibrated"});
  CHECK(excluded.code == 2);
  CHECK(contains(excluded.err, "--uncalibrated"));
}

TEST_CASE("evaluate --ensemble: runs with other classes or images are an error") {
  const Runs runs;
  const auto fails = [&](const Arguments& more, const std::string& message, int code) {
    Arguments arguments{"evaluate", runs.path("1")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments);
    INFO(result.err);
    CHECK(result.code == code);
    CHECK(contains(result.err, message));
  };
  fails({"--ensemble", runs.path("2").string() + ","}, "expected run folders with commas", 2);
  fails({runs.path("2"), "--ensemble", runs.path("3")}, "give one run before it", 2);
  fails({"--ensemble", "nowhere"}, "nowhere", 3);
  fails({"--ensemble", ""}, "names no run", 2);
  fails({"--positive-class", "3"}, "--curves or --operating-point", 2);
  const Result none = run({"predict", runs.path("1"), "--ensemble", ""});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "names no run"));
  const Path other = runs.work / "other";
  REQUIRE(run({"train", runs.config, "--run-dir", other, "--quiet", "--set",
               "data.validation_split=0.25", "--seed", "5"})
              .code == 0);
  REQUIRE(run({"train", runs.config, "--run-dir", runs.work / "another", "--quiet", "--set",
               "data.validation_split=0.25", "--seed", "6"})
              .code == 0);
  const Result result =
      run({"evaluate", other, "--ensemble", runs.work / "another", "--split", "validation"});
  CHECK(result.code == 3);
  CHECK(contains(result.err, "has other images than "));
}

}  // namespace trainer::e2e::ensemble_test
