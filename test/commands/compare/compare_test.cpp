// Runs side by side: compare and diff.
#include "commands/compare/compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <sstream>

#include "commands/compare/diff.h"
#include "results/run_files/statistics.h"
#include "results/support.h"

namespace trainer::commands {
namespace {

using test::FakeRun;

struct Two {
  TemporaryFolder folder;
  Path a() const { return folder.path() / "a"; }
  Path b() const { return folder.path() / "b"; }
  Two(const FakeRun& first, const FakeRun& second) {
    test::write_run(a(), first);
    test::write_run(b(), second);
  }
  Comparison compared(std::optional<double> wanted = {}) const {
    return compared_by(results::CheckpointChoice::kBest, wanted);
  }
  Comparison compared_by(results::CheckpointChoice preferred,
                         std::optional<double> wanted = {}) const {
    return compare({results::read_run(a()), results::read_run(b())}, preferred, wanted,
                   [&](const Path& run) { return predict_run(run, preferred, 60, {}); });
  }
  RunDiff diffed() const { return diff(results::read_run(a()), results::read_run(b())); }
};

std::string printed(const Comparison& comparison) {
  std::ostringstream out;
  print_comparison(comparison, out);
  return out.str();
}

// Right or wrong, one letter per sample.
void store(const Path& run, const std::string& marks, const std::string& label = "cat") {
  std::string text;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    text += concat("{\"index\":", i, ",\"class\":\"", marks[i] == 'r' ? label : "other",
                   "\",\"label\":\"", label, "\"}\n");
  }
  write_file_atomic(run / "predictions.jsonl", text);
}

TEST_CASE("statistics: McNemar's exact test and Student's interval have known values") {
  CHECK(results::mcnemar(0, 0) == 1);
  CHECK(results::mcnemar(5, 5) == 1);
  CHECK(results::mcnemar(0, 6) == doctest::Approx(2.0 / 64));
  CHECK(results::mcnemar(1, 9) == doctest::Approx(2.0 * 11 / 1024));
  CHECK(results::mcnemar(9, 1) == results::mcnemar(1, 9));
  const results::Estimate one = results::estimate({0.5, 0.7});
  CHECK(one.mean == doctest::Approx(0.6));
  CHECK(one.high == doctest::Approx(0.6 + 12.7062 * 0.1));
  // t(20) = 2.0860
  std::vector<double> many(21, 0.0);
  many[0] = 1;
  many[1] = -1;
  const results::Estimate twenty = results::estimate(many);
  CHECK(twenty.high == doctest::Approx(2.0860 * std::sqrt(0.1 / 21)).epsilon(1e-4));
}

TEST_CASE("compare prints settings that differ, curves at common steps and results") {
  FakeRun second;
  second.batch_size = 64;
  second.steps = 2;
  second.correct = 95;
  const Two two({}, second);
  const Comparison comparison = two.compared(0.9);
  REQUIRE(comparison.settings.size() == 1);
  CHECK(comparison.settings[0].first == "train.batch_size");
  CHECK(comparison.settings[0].second == std::vector<std::string>{"32", "64"});
  std::string steps;
  for (const auto& point : comparison.curve) {
    if (point.metric == "train loss") steps += std::to_string(point.step) + " ";
  }
  CHECK(steps == "1 2 ");
  CHECK(comparison.results[0].interval.low == doctest::Approx(0.8256).epsilon(1e-3));
  CHECK(*comparison.results[0].seconds_to_accuracy == doctest::Approx(4));
  CHECK(*comparison.results[1].seconds_to_accuracy == doctest::Approx(3));
  const std::string text = printed(comparison);
  CHECK(text.find("0.8256-0.9448") != std::string::npos);
  // These folders have no checkpoints.
  CHECK(text.find("has no part in McNemar's test: ") != std::string::npos);
}

TEST_CASE("compare: cached features have the throughput with them and while they were computed") {
  FakeRun first;
  first.throughput = {{"images_per_second_computing_features", 119.0},
                      {"images_per_second_cached_features", 23128.0}};
  FakeRun second;
  second.throughput = {{"images_per_second_cached_features", 23000.0}};
  const std::string text = printed(Two(first, second).compared());
  const auto has_row = [&](const std::string& name, const std::string& a, const std::string& b) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line.starts_with(name) ? line.substr(name.size()) : "");
      std::string one, other, rest;
      if (words >> one >> other && one == a && other == b && !(words >> rest)) return true;
    }
    return false;
  };
  INFO(text);
  CHECK(has_row("images/second", "23128.0", "23000.0"));
  CHECK(has_row("images/second, features computed", "119.0", "-"));
  CHECK(printed(Two({}, {}).compared()).find("features computed") == std::string::npos);
}

TEST_CASE("compare: --last prints results of the last checkpoints without stored predictions") {
  FakeRun run;
  run.best = {{"metric", "test/accuracy"}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
  const Two two(run, run);
  store(two.a(), "rrr");
  store(two.b(), "rww");
  const Comparison best = two.compared();
  CHECK(best.results[0].checkpoint == results::CheckpointChoice::kBest);
  CHECK(best.results[0].accuracy == doctest::Approx(0.45));
  CHECK(best.pairs.size() == 1);
  const Comparison last = two.compared_by(results::CheckpointChoice::kLast);
  CHECK(last.results[0].checkpoint == results::CheckpointChoice::kLast);
  CHECK(last.results[1].accuracy == doctest::Approx(0.9));
  CHECK(last.pairs.empty());  // these runs have no checkpoints to predict with
  CHECK(last.notes.size() == 2);
}

TEST_CASE("compare notes results of the last and predictions of the best checkpoint") {
  FakeRun run;
  run.best = {{"metric", "validation/accuracy"}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
  const Two two(run, {});
  CHECK(two.compared().notes.size() == 2);  // no predictions
  store(two.a(), "rrr");
  store(two.b(), "rww");
  const Comparison comparison = two.compared();
  CHECK(comparison.results[0].checkpoint == results::CheckpointChoice::kLast);
  CHECK(comparison.pairs.size() == 1);
  REQUIRE(comparison.notes.size() == 1);  // the other run has no best checkpoint
  CHECK(comparison.notes[0].starts_with(two.a().string() + ": the table has the results of its "));
  CHECK(comparison.notes[0].find("best one on the test split") != std::string::npos);
  CHECK(two.compared_by(results::CheckpointChoice::kLast).notes.size() ==
        2);  // no checkpoints to predict

  run.best["restored"] = true;  // the last parameters are those of the best checkpoint
  const Two restored(run, {});
  store(restored.a(), "rrr");
  store(restored.b(), "rww");
  CHECK(restored.compared().notes.empty());
}

TEST_CASE("compare prints ten steps of a long curve with the last one") {
  FakeRun run;
  run.steps = 25;
  std::vector<std::int64_t> steps;
  for (const auto& point : Two(run, run).compared().curve) {
    if (point.metric == "train loss") steps.push_back(point.step);
  }
  CHECK(steps == std::vector<std::int64_t>{2, 5, 7, 10, 12, 15, 17, 20, 22, 25});
}

TEST_CASE("compare: stored predictions are compared sample by sample") {
  const Two two({}, {});
  store(two.a(), "rrrrrrrrww");
  store(two.b(), "rrwwwwwwrw");
  const Comparison comparison = two.compared();
  REQUIRE(comparison.pairs.size() == 1);
  const PairedResult& result = comparison.pairs[0].result;
  CHECK(result.both_right == 2);
  CHECK(result.only_first == 6);
  CHECK(result.only_second == 1);
  CHECK(result.both_wrong == 1);
  CHECK(result.probability == doctest::Approx(2.0 * 8 / 128));
  CHECK(printed(comparison).find("p = 0.125: no difference shown") != std::string::npos);

  store(two.b(), "rrwwwwwwrw", "dog");  // other labels: other samples
  CHECK(two.compared().pairs.empty());
  REQUIRE(two.compared().notes.size() == 1);
  CHECK(two.compared().notes[0].find("are of other samples") != std::string::npos);

  write_file_atomic(two.b() / "predictions.jsonl", "{\"index\":0,\"class\":\"cat\"}\n");
  CHECK_THROWS_WITH_AS(two.compared(),
                       doctest::Contains("predictions.jsonl:1: is not a prediction of a labelled"),
                       DataError);
}

TEST_CASE("diff finds no difference in equal runs") {
  FakeRun other;
  other.seconds = 0.7;  // times are not what a run is
  const RunDiff same = Two({}, other).diffed();
  CHECK_FALSE(same.step);
  CHECK(same.common_steps == 4);
  CHECK(same.common_hashes == 3);
  CHECK(same.settings.empty());
}

TEST_CASE("diff finds the first step that differs and its fields") {
  FakeRun other;
  SUBCASE("the loss") {
    other.loss = [](std::int64_t step) { return step < 3 ? FakeRun().loss(step) : "9.5"; };
    const RunDiff found = Two({}, other).diffed();
    CHECK(found.step == 3);
    CHECK(found.equal == 2);
    REQUIRE(found.fields.size() == 1);
    CHECK(found.fields[0].field == LedgerField::kLoss);
    CHECK(found.fields[0].second == "9.5");
  }
  SUBCASE("losses whose samples were added in another order are equal") {
    FakeRun one;
    one.loss = [](std::int64_t) { return "2.2798322240511575"; };
    other.loss = [](std::int64_t) { return "2.2798322240511579"; };
    CHECK_FALSE(Two(one, other).diffed().step);
    other.loss = [](std::int64_t) { return "2.2798322250511575"; };  // of other arithmetic
    CHECK(Two(one, other).diffed().step == 1);
    for (const char* text : {"nan", "inf"}) {
      CAPTURE(text);
      other.loss = [text](std::int64_t) { return text; };
      CHECK(Two(one, other).diffed().step == 1);
      CHECK(Two(other, one).diffed().step == 1);
    }
  }
  SUBCASE("the samples come before the loss that follows from them") {
    other.samples_hash = "00000000000000bb";
    other.loss = [](std::int64_t) { return "9.5"; };
    const RunDiff found = Two({}, other).diffed();
    CHECK(found.step == 1);
    CHECK_FALSE(found.equal);
    REQUIRE(found.fields.size() == 2);
    CHECK(found.fields[0].field == LedgerField::kSampleIds);
  }
  SUBCASE("the gradient, with the same losses") {
    other.gradient_norm = "0.51";
    const RunDiff found = Two({}, other).diffed();
    CHECK(found.step == 1);
    REQUIRE(found.fields.size() == 1);
    CHECK(found.fields[0].field == LedgerField::kGradientNorm);
  }
  SUBCASE("a norm that one run does not have is not a difference") {
    other.gradient_norm = "";
    CHECK_FALSE(Two({}, other).diffed().step);
  }
  SUBCASE("the parameters come before the loss that follows from them") {
    other.parameters_hash = "beef";
    other.loss = [](std::int64_t step) { return step < 3 ? FakeRun().loss(step) : "9.5"; };
    const RunDiff found = Two({}, other).diffed();
    CHECK(found.step == 2);
    REQUIRE(found.fields.size() == 1);
    CHECK(found.fields[0].field == LedgerField::kParameters);
  }
  SUBCASE("the parameters, with the same losses") {
    other.parameters_hash = "beef";
    other.program = "trainer 2";
    const RunDiff found = Two({}, other).diffed();
    CHECK(found.step == 2);
    REQUIRE(found.fields.size() == 1);
    CHECK(found.fields[0].field == LedgerField::kParameters);
    REQUIRE(found.settings.size() == 1);
    CHECK(found.settings[0].first == "program");
    std::ostringstream out;
    print_diff(found, out);
    CHECK(out.str().find("first difference at step 2, the last equal one is 1: samples and "
                         "learning rates were the same: look at what differs below") !=
          std::string::npos);
  }
}

TEST_CASE("diff compares a ledger row of several steps with the rows of the single steps") {
  FakeRun other;
  const auto rewritten = [&](const std::string& rows) {
    const Two two({}, {});
    write_file_atomic(
        two.b() / "ledger.csv",
        "step,samples,loss,learning_rate,sample_ids,seconds,wait_seconds,parameters\n" + rows);
    return two.diffed();
  };
  const std::string samples = std::to_string(2 * other.samples), loss = other.loss(2);
  const auto row = [&](const std::string& ids) {
    return "2," + samples + "," + loss + ",0.001," + ids + ",1,0,\n";
  };
  char sum[20];
  std::snprintf(sum, sizeof sum, "%016llx", 2 * std::stoull(other.samples_hash, nullptr, 16));
  const RunDiff same = rewritten(row(sum));
  CHECK_FALSE(same.step);
  CHECK(same.common_steps == 1);
  CHECK(same.equal == 2);
  const RunDiff ids = rewritten(row("00000000000000bb"));
  REQUIRE(ids.fields.size() == 1);
  CHECK(ids.fields[0].field == LedgerField::kSampleIds);
  CHECK(ids.fields[0].first == sum);
  CHECK_FALSE(rewritten(row("")).step);
  CHECK(rewritten("2,7," + loss + ",0.001,,1,0,\n").fields.at(0).first == samples);
}

TEST_CASE("diff: a run without a ledger is an error") {
  const Two two({}, {});
  std::filesystem::remove(two.b() / "ledger.csv");
  CHECK_THROWS_WITH_AS(two.diffed(), doctest::Contains("run.ledger: false"), DataError);
}

}  // namespace
}  // namespace trainer::commands
