#include "results/sweeps/summary.h"

#include <doctest/doctest.h>

#include <sstream>

#include "base/text.h"
#include "engine/metrics/metrics.h"
#include "results/sweeps/support.h"
#include "results/sweeps/table.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::results {
namespace {

using test::contains;
using test::FakeRun;
using test::FakeSweep;
using test::make_run;

TEST_CASE(
    "summarize: speed-up and efficiency are relative to the fewest replicas of the same batch "
    "size") {
  const FakeSweep sweep({"parallel.gpus=1,2", "train.batch_size=32,64"});
  sweep.write("gpus=1_batch_size=32", make_run(1, 0.5));    // 64 images/s
  sweep.write("gpus=2_batch_size=32", make_run(2, 0.625));  // 102.4
  sweep.write("gpus=1_batch_size=64", make_run(1, 0.25));
  const Summary summary = sweep.summary();
  REQUIRE(summary.rows.size() == 4);
  CHECK_FALSE(summary.rows[0].speed_up);
  CHECK(*summary.rows[2].speed_up == doctest::Approx(1.6));
  CHECK(*summary.rows[2].efficiency == doctest::Approx(0.8));
  CHECK(summary.rows[2].verdict == "2 replicas gain 1.60x: they share this machine's cores");
  CHECK(summary.rows[3].runs == 0);
  CHECK(summary.rows[3].missing == 1);
  CHECK(summary.rows[3].verdict == "not started");
}

TEST_CASE("summarize: the verdict names the limit of a point") {
  const FakeSweep sweep({"train.batch_size=32,64", "parallel.gpus=1,2"});
  FakeRun waiting = make_run(1, 0.5);
  waiting.wait_seconds = 0.25;
  sweep.write("batch_size=32_gpus=1", waiting);
  FakeRun large = make_run(1, 0.25);
  large.samples = 64;
  sweep.write("batch_size=64_gpus=1", large);
  FakeRun scales = make_run(2, 0.25);
  scales.samples = 128;
  scales.on_cpu = false;
  sweep.write("batch_size=64_gpus=2", scales);
  const Summary summary = sweep.summary();
  CHECK(contains(summary.rows[0].verdict, "input: 50 % of a step waits for data"));
  CHECK(contains(summary.rows[0].verdict, "batch too small: a global batch of 64 does 4.00x"));
  CHECK(summary.rows[2].verdict == "compute: the step itself takes the time");
  CHECK(summary.rows[3].verdict == "scales: 2 replicas gain 2.00x");
}

TEST_CASE("summarize: two ranks have a verdict of all-reduce or a straggler") {
  const FakeSweep sweep({"parallel.gpus=1,2"});
  sweep.write("gpus=1", make_run(1, 0.5));
  FakeRun two = make_run(2, 0.9);
  two.step_times = test::step_times(
      {test::rank_times("rank 0 (a)", {{"forward_seconds", 0.1}, {"all_reduce_seconds", 0.3}}),
       test::rank_times("rank 1 (b)", {{"forward_seconds", 0.1}, {"all_reduce_seconds", 0.3}})});
  sweep.write("gpus=2", two);
  Summary summary = sweep.summary();
  CHECK(summary.rows[1].verdict == "2 replicas gain 1.11x: 75 % of a step is all-reduce");
  REQUIRE(summary.rows[1].all_reduce_share);
  CHECK(*summary.rows[1].all_reduce_share == doctest::Approx(0.75));
  CHECK(contains(table_csv(summary), ",all_reduce_share,"));
  CHECK_FALSE(summary.rows[0].all_reduce_share);
  two.step_times = test::step_times(
      {test::rank_times("rank 0 (a)", {{"forward_seconds", 0.1}, {"all_reduce_seconds", 0.3}}),
       test::rank_times("rank 1 (b)", {{"forward_seconds", 0.4}})});
  sweep.write("gpus=2", two);
  summary = sweep.summary();
  REQUIRE(summary.rows[1].straggler);
  CHECK(summary.rows[1].straggler->rank == 1);
  CHECK(contains(summary.rows[1].verdict,
                 "straggler: rank 1 (b) takes 400.00 ms per step of its own"));
  CHECK_FALSE(contains(summary.rows[1].verdict, "of a step is all-reduce"));
}

TEST_CASE("summarize: one rank has a verdict of launching and updating if phases are measured") {
  const FakeSweep sweep({"parallel.gpus=1"});
  const auto verdict = [&](const test::Json& seconds) {
    FakeRun run = make_run(1, 0.5);
    run.step_times = test::step_times({test::rank_times("replica 0", seconds)});
    sweep.write("gpus=1", run);
    return sweep.summary().rows[0].verdict;
  };
  CHECK(verdict({{"forward_seconds", 0.3}, {"other_seconds", 0.1}}) ==
        "launch: 25 % of a step goes into starting the work and reading its results");
  CHECK(verdict({{"other_seconds", 0.5}}) == "compute: the step itself takes the time");
  CHECK(verdict({{"forward_seconds", 0.3}, {"update_seconds", 0.2}}) ==
        "batch too small: 40 % of a step is the update, which takes as long for a larger one");
}

TEST_CASE(
    "summarize: cached features that one of two equal points computed keep the same throughput") {
  const FakeSweep sweep({"train.batch_size=32,64"});
  FakeRun point = make_run(1, 0.5);
  point.step_times = test::step_times(
      {test::rank_times("replica 0", {{"forward_seconds", 0.3}, {"other_seconds", 0.1}})});
  point.throughput = {{"images_per_second_computing_features", 119.0},
                      {"images_per_second_cached_features", 23128.0}};
  sweep.write("batch_size=32", point);
  point.throughput.erase("images_per_second_computing_features");
  sweep.write("batch_size=64", point);
  const Summary summary = sweep.summary();
  for (const SummaryRow& row : summary.rows) {
    CHECK(row.images_per_second == 23128);
    CHECK(row.samples == doctest::Approx(128));
    CHECK_FALSE(contains(row.verdict, "launch"));
  }
  const std::string sentence =
      "Images/s: steps with cached features, where a point has such steps; the total time of "
      "batch_size=32 includes the computation of the features.";
  CHECK(summary.cached == sentence);
  CHECK(contains(table_markdown(summary), sentence));
  std::ostringstream out;
  print_summary(summary, sweep.plan.folder, std::nullopt, out);
  CHECK(contains(out.str(), sentence));
  sweep.write("batch_size=32", make_run(1, 0.5));
  sweep.write("batch_size=64", make_run(1, 0.5));
  CHECK(sweep.summary().cached.empty());
}

TEST_CASE("summarize: several seeds give an interval of the accuracy") {
  const FakeSweep sweep({"seed=1,2,3"});
  sweep.write("seed=1", make_run(1, 0.5, 80));
  sweep.write("seed=2", make_run(1, 0.5, 90));
  CHECK(sweep.summary().rows.front().missing == 1);
  sweep.write("seed=3", make_run(1, 0.5, 85));
  const Summary summary = sweep.summary();
  REQUIRE(summary.rows.size() == 1);
  CHECK(summary.rows.front().runs == 3);
  REQUIRE(summary.rows.front().accuracy);
  CHECK(summary.rows.front().accuracy->mean == doctest::Approx(0.85));
  // t(2) = 4.3027, deviation 0.05
  CHECK(summary.rows.front().accuracy->low == doctest::Approx(0.7258).epsilon(1e-3));
  CHECK(summary.rows.front().accuracy->high == doctest::Approx(0.9742).epsilon(1e-3));
}

TEST_CASE("summarize takes accuracy and loss of the best checkpoint of the scored split") {
  const FakeSweep sweep({"seed=1"});
  const auto summary_with = [&](const std::string& metric) {
    FakeRun run = make_run(1, 0.5, 90);
    run.best = {{"metric", metric}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
    sweep.write("seed=1", run);
    return sweep.summary();
  };
  const Summary best = summary_with("test/accuracy");
  REQUIRE(best.rows.front().accuracy);
  CHECK(best.rows.front().accuracy->mean == doctest::Approx(0.45));
  CHECK(best.rows.front().accuracy->low == doctest::Approx(engine::wilson(45, 100).low));
  CHECK(best.scored == "Accuracy and loss: test, best checkpoints (test/accuracy).");
  CHECK(contains(table_markdown(best), best.scored));
  CHECK(nlohmann::json::parse(to_line(best))["points"][0]["checkpoint"] == "best");

  // The metrics of the test split are those of the last parameters alone.
  const Summary last = summary_with("validation/accuracy");
  CHECK(last.rows.front().accuracy->mean == doctest::Approx(0.9));
  CHECK(last.scored ==
        "Accuracy and loss: test, last checkpoints; `trainer evaluate` takes the best one of a "
        "point.");
  CHECK(nlohmann::json::parse(to_line(last))["points"][0]["checkpoint"] == "last");
}

TEST_CASE("summarize takes the last checkpoints of all runs if one run has no best checkpoint") {
  const FakeSweep sweep({"seed=1,2,3"});
  FakeRun run = make_run(1, 0.5, 90);
  sweep.write("seed=1", run);  // as an older program left it
  run.best = {{"metric", "test/accuracy"}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
  sweep.write("seed=2", run);
  sweep.write("seed=3", run);
  const Summary summary = sweep.summary();
  REQUIRE(summary.rows.front().accuracy);
  CHECK(summary.rows.front().accuracy->mean == doctest::Approx(0.9));
  CHECK(summary.scored ==
        "Accuracy and loss: test, last checkpoints, because 1 of 3 runs have no best checkpoint "
        "of test.");
  const auto table = nlohmann::json::parse(to_line(summary));
  for (const auto& point : table["points"]) {
    CHECK(point["checkpoint"] == "last");
    CHECK(point["accuracy"] == doctest::Approx(0.9));
  }
}

TEST_CASE("summarize: --last takes the accuracy of the last checkpoints and adds a sentence") {
  const FakeSweep sweep({"seed=1,2"});
  FakeRun run = make_run(1, 0.5, 90);
  sweep.write("seed=1", run);
  const Summary none = sweep.summary({}, CheckpointChoice::kLast);
  CHECK(none.scored == "Accuracy and loss: test, last checkpoints.");
  run.best = {{"metric", "test/accuracy"}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
  sweep.write("seed=1", run);
  sweep.write("seed=2", run);
  const Summary summary = sweep.summary({}, CheckpointChoice::kLast);
  CHECK(summary.rows.front().accuracy->mean == doctest::Approx(0.9));
  CHECK(summary.scored ==
        "Accuracy and loss: test, last checkpoints, by --last; 2 of 2 runs have a best one.");
  for (const CheckpointChoice checkpoint : {CheckpointChoice::kBest, CheckpointChoice::kLast}) {
    const auto event = nlohmann::json::parse(point_json(summary.points[0], checkpoint, {}));
    CHECK(event["checkpoint"] == to_string(checkpoint));
  }
}

TEST_CASE("collect: a point with damaged files is named, and the others are summarized") {
  const FakeSweep sweep({"train.batch_size=32,64,128"});
  for (const char* point : {"batch_size=32", "batch_size=64", "batch_size=128"}) {
    sweep.write(point, make_run(1, 0.5));
  }
  CHECK_FALSE(has_damaged(collect(sweep.plan)));
  const Path record = sweep.plan.folder / "batch_size=32/run.json";
  const std::string whole = read_text_file(record);
  write_file_atomic(record, whole.substr(0, whole.size() / 2));
  write_file_atomic(sweep.plan.folder / "batch_size=128/metrics.csv", "step,epoch\n1\n");
  const Summary summary = sweep.summary();
  CHECK(has_damaged(summary.points));
  CHECK(find_exit_code(summary.points) == kExitData);
  CHECK(summary.points[1].is_done());
  for (const std::size_t i : {0, 2}) {
    CHECK(to_string(summary.points[i].kind) == std::string("damaged"));
    CHECK(contains(summary.rows[i].verdict, "damaged: "));
  }
  CHECK(contains(summary.points[0].message, record.string()));
  CHECK(contains(summary.points[0].message, "; remove the folder "));
  std::ostringstream out;
  print_summary(summary, sweep.plan.folder, std::nullopt, out);
  CHECK(contains(out.str(), "damaged: batch_size=128: "));
  CHECK(contains(out.str(), "metrics.csv:2: has 1 fields"));
  CHECK_FALSE(contains(out.str(), "errors.log"));
  const auto json = nlohmann::json::parse(to_line(summary));
  CHECK(json["points"][0]["state"] == "damaged");
  CHECK(json["points"][0]["code"] == 3);
  // A run that goes on is not damaged.
  FakeRun part = make_run(1, 0.5);
  part.finished = false;
  sweep.write("batch_size=32", part);
  CHECK(collect(sweep.plan)[0].kind == PointState::Kind::kStopped);
  CHECK_FALSE(collect(sweep.plan)[0].run);
}

TEST_CASE("accuracy_sentence names the cheapest or fastest point that reaches an accuracy") {
  const FakeSweep sweep({"parallel.gpus=1,2"});
  FakeRun slow = make_run(1, 1), fast = make_run(2, 0.75);
  slow.on_cpu = fast.on_cpu = false;
  sweep.write("gpus=1", slow);
  sweep.write("gpus=2", fast);
  // Without prices the fastest: 3 s of steps and 2 s of evaluations.
  CHECK(accuracy_sentence(sweep.summary(0.9)) ==
        "gpus=2 reaches an accuracy of 90.00 % fastest (run.price_per_hour is not set), in 5.0 s.");
  slow.price = fast.price = 3600;
  sweep.write("gpus=1", slow);
  sweep.write("gpus=2", fast);
  // Two devices for 5 s cost more than one for 6 s.
  CHECK(accuracy_sentence(sweep.summary(0.9)) ==
        "gpus=1 reaches an accuracy of 90.00 % cheapest: 6.0000, in 6.0 s.");
  CHECK(accuracy_sentence(sweep.summary(0.95)) == "No point reaches an accuracy of 95.00 %.");
  CHECK(accuracy_sentence(sweep.summary()).empty());
}

TEST_CASE("accuracy_sentence names the fastest point if only some points have prices") {
  const FakeSweep sweep({"parallel.gpus=1,2"});
  FakeRun slow = make_run(1, 1), fast = make_run(2, 0.75);
  slow.on_cpu = fast.on_cpu = false;
  // 1 per hour is less than the 5 s of the other point, in another unit.
  slow.price = 1;
  sweep.write("gpus=1", slow);
  sweep.write("gpus=2", fast);
  const Summary summary = sweep.summary(0.9);
  CHECK(accuracy_sentence(summary) ==
        "gpus=2 reaches an accuracy of 90.00 % fastest (some points have no run.price_per_hour), "
        "in 5.0 s.");
  CHECK(nlohmann::json::parse(to_line(summary))["cheapest"] == "gpus=2");
}

}  // namespace
}  // namespace trainer::results
