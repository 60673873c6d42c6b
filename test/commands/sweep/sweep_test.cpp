// The points of a sweep, its table and verdicts, and what other launchers get.
#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include "base/text.h"
#include "commands/support.h"
#include "commands/sweep/grid.h"
#include "commands/sweep/launchers.h"
#include "commands/sweep/sweep_print.h"
#include "commands/sweep/table.h"
#include "engine/metrics/metrics.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using test::FakeRun;

using trainer::test::contains;

// A sweep over replicas, batch size and seed in a folder of its own.
struct Sweep {
  TemporaryFolder folder;
  SweepPlan plan;

  explicit Sweep(const std::vector<std::string>& over) {
    const Path config = folder.path() / "fake.yaml";
    write_file_atomic(config, test::fake_config(32) + "parallel: {lr_scaling: none}\n");
    std::vector<Axis> axes;
    for (const std::string& text : over) axes.push_back(parse_axis(text));
    plan = plan_sweep(config, axes, {}, {}, folder.path() / "sweep");
  }
  void write(const std::string& point, const FakeRun& run) const {
    test::write_run(plan.folder / point, run);
  }
  Summary summary(std::optional<double> wanted = {},
                  ScoredCheckpoint preferred = ScoredCheckpoint::kBest) const {
    return summarize(plan, collect(plan), wanted, preferred);
  }
};

FakeRun with(std::int64_t replicas, double seconds, std::int64_t correct = 90) {
  FakeRun run;
  run.replicas = replicas;
  run.samples = 32 * replicas;
  run.seconds = seconds;
  run.wait_seconds = 0;
  run.correct = correct;
  return run;
}

TEST_CASE("parse_axis: a key and its values, an error without either") {
  const Axis axis = parse_axis("parallel.gpus=1,[0, 2],all");
  CHECK(axis.key == "parallel.gpus");
  CHECK(axis.values == std::vector<std::string>{"1", "[0, 2]", "all"});
  for (const char* wrong : {"seed", "=1", "seed=", "seed=1,,2"}) {
    CHECK_THROWS_WITH_AS(parse_axis(wrong), doctest::Contains("expected key=value"), ConfigError);
  }
}

TEST_CASE("parse_axis: commas within quotes and brackets, parts of a value") {
  CHECK(parse_axis(R"(name="a,b",'c,"d',e's,f)").values ==
        std::vector<std::string>{R"("a,b")", R"('c,"d')", "e's", "f"});
  CHECK(parse_axis(R"(name="a\",b",c)").values == std::vector<std::string>{R"("a\",b")", "c"});
  CHECK(parse_axis(R"(data.classes=["a]",b],[c])").values ==
        std::vector<std::string>{R"(["a]",b])", "[c]"});
}

TEST_CASE("axes_of_environment: variables give axes that flags replace") {
  const config::Environment environment{
      {"NUM_GPUS", "1 2"}, {"BATCH_SIZE", "32,64"}, {"SEEDS", " "}, {"LEARNING_RATE", "0.1"}};
  const auto axes =
      axes_of_environment(environment, {parse_axis("train.batch_size=8")}, "optimizer.sgd.x");
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].key == "parallel.gpus");
  CHECK(axes[0].values == std::vector<std::string>{"1", "2"});
  CHECK(axes[0].variable == "NUM_GPUS");
  CHECK(axes[1].key == "optimizer.sgd.x");
}

TEST_CASE("make_points: all combinations, named by their values") {
  const auto points =
      make_points({parse_axis("train.batch_size=32,64"), parse_axis("parallel.gpus=1,[0, 1]")});
  REQUIRE(points.size() == 4);
  CHECK(points[0].name == "batch_size=32_gpus=1");
  CHECK(points[1].name == "batch_size=32_gpus=-0--1-");
  CHECK(points[3].values[0].second == "64");
  // Keys that end alike keep their whole names.
  const auto alike =
      make_points({parse_axis("train.batch_size=1"), parse_axis("evaluate.batch_size=2")});
  CHECK(alike.front().name == "train.batch_size=1_evaluate.batch_size=2");
  CHECK_THROWS_WITH_AS(make_points({parse_axis("seed=1,1")}), doctest::Contains("called seed=1"),
                       ConfigError);
  CHECK(make_points({}).front().name == "run");
}

TEST_CASE("plan_sweep: a mistake in any point, an error before the first point starts") {
  CHECK_THROWS_WITH_AS(Sweep({"train.batch_size=32,none"}), doctest::Contains("train.batch_size"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(Sweep({"train.batchsize=32"}), doctest::Contains("batch_size"), ConfigError);
}

TEST_CASE("write_plan: a folder of other files or of another sweep, an error") {
  const Sweep sweep({"train.batch_size=32,64"});
  SUBCASE("files of somebody else") {
    std::filesystem::create_directories(sweep.plan.folder);
    write_file_atomic(sweep.plan.folder / "thesis.txt", "x");
    CHECK_THROWS_WITH_AS(write_plan(sweep.plan), doctest::Contains("no sweep.json"), ConfigError);
  }
  SUBCASE("a run of another config") {
    write_plan(sweep.plan);
    FakeRun other;
    other.batch_size = 48;
    sweep.write("batch_size=64", other);
    CHECK_THROWS_WITH_AS(write_plan(sweep.plan),
                         doctest::Contains("train.batch_size was 48, is 64"), ConfigError);
  }
  SUBCASE("its own") {
    write_plan(sweep.plan);
    FakeRun right;
    right.batch_size = 64;
    sweep.write("batch_size=64", right);
    write_plan(sweep.plan);
    const SweepPlan again = read_plan(sweep.plan.folder);
    CHECK(again.name == "fake");
    REQUIRE(again.points.size() == 2);
    CHECK(again.points[1].name == "batch_size=64");
  }
}

TEST_CASE(
    "summarize: speed-up and efficiency relative to the fewest replicas of the same batch size") {
  const Sweep sweep({"parallel.gpus=1,2", "train.batch_size=32,64"});
  sweep.write("gpus=1_batch_size=32", with(1, 0.5));    // 64 images/s
  sweep.write("gpus=2_batch_size=32", with(2, 0.625));  // 102.4
  sweep.write("gpus=1_batch_size=64", with(1, 0.25));
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
  const Sweep sweep({"train.batch_size=32,64", "parallel.gpus=1,2"});
  FakeRun waiting = with(1, 0.5);
  waiting.wait_seconds = 0.25;
  sweep.write("batch_size=32_gpus=1", waiting);
  FakeRun large = with(1, 0.25);
  large.samples = 64;
  sweep.write("batch_size=64_gpus=1", large);
  FakeRun scales = with(2, 0.25);
  scales.samples = 128;
  scales.on_cpu = false;
  sweep.write("batch_size=64_gpus=2", scales);
  const Summary summary = sweep.summary();
  CHECK(contains(summary.rows[0].verdict, "input: 50 % of a step waits for data"));
  CHECK(contains(summary.rows[0].verdict, "batch too small: a global batch of 64 does 4.00x"));
  CHECK(summary.rows[2].verdict == "compute: the step itself takes the time");
  CHECK(summary.rows[3].verdict == "scales: 2 replicas gain 2.00x");
}

TEST_CASE("summarize: two ranks, a verdict of all-reduce or a straggler") {
  const Sweep sweep({"parallel.gpus=1,2"});
  sweep.write("gpus=1", with(1, 0.5));
  FakeRun two = with(2, 0.9);
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

TEST_CASE("summarize: one rank, a verdict of launching and updating if phases are measured") {
  const Sweep sweep({"parallel.gpus=1"});
  const auto verdict = [&](const test::Json& seconds) {
    FakeRun run = with(1, 0.5);
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

TEST_CASE("summarize: cached features that one of two equal points computed, the same throughput") {
  const Sweep sweep({"train.batch_size=32,64"});
  FakeRun point = with(1, 0.5);
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
  sweep.write("batch_size=32", with(1, 0.5));
  sweep.write("batch_size=64", with(1, 0.5));
  CHECK(sweep.summary().cached.empty());
}

TEST_CASE("summarize: several seeds, an interval of the accuracy") {
  const Sweep sweep({"seed=1,2,3"});
  sweep.write("seed=1", with(1, 0.5, 80));
  sweep.write("seed=2", with(1, 0.5, 90));
  CHECK(sweep.summary().rows.front().missing == 1);
  sweep.write("seed=3", with(1, 0.5, 85));
  const Summary summary = sweep.summary();
  REQUIRE(summary.rows.size() == 1);
  CHECK(summary.rows.front().runs == 3);
  REQUIRE(summary.rows.front().accuracy);
  CHECK(summary.rows.front().accuracy->mean == doctest::Approx(0.85));
  // t(2) = 4.3027, deviation 0.05
  CHECK(summary.rows.front().accuracy->low == doctest::Approx(0.7258).epsilon(1e-3));
  CHECK(summary.rows.front().accuracy->high == doctest::Approx(0.9742).epsilon(1e-3));
}

TEST_CASE("summarize: runs with a best checkpoint of the scored split, its accuracy and loss") {
  const Sweep sweep({"seed=1"});
  const auto summary_with = [&](const std::string& metric) {
    FakeRun run = with(1, 0.5, 90);
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
  CHECK(nlohmann::json::parse(table_json(best))["points"][0]["checkpoint"] == "best");

  // The metrics of the test split are those of the last parameters alone.
  const Summary last = summary_with("validation/accuracy");
  CHECK(last.rows.front().accuracy->mean == doctest::Approx(0.9));
  CHECK(last.scored ==
        "Accuracy and loss: test, last checkpoints; `trainer evaluate` takes the best one of a "
        "point.");
  CHECK(nlohmann::json::parse(table_json(last))["points"][0]["checkpoint"] == "last");
}

TEST_CASE("summarize: one run without a best checkpoint, the last checkpoints of all runs") {
  const Sweep sweep({"seed=1,2,3"});
  FakeRun run = with(1, 0.5, 90);
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
  const auto table = nlohmann::json::parse(table_json(summary));
  for (const auto& point : table["points"]) {
    CHECK(point["checkpoint"] == "last");
    CHECK(point["accuracy"] == doctest::Approx(0.9));
  }
}

TEST_CASE("summarize: --last, the accuracy of the last checkpoints and a sentence") {
  const Sweep sweep({"seed=1,2"});
  FakeRun run = with(1, 0.5, 90);
  sweep.write("seed=1", run);
  const Summary none = sweep.summary({}, ScoredCheckpoint::kLast);
  CHECK(none.scored == "Accuracy and loss: test, last checkpoints.");
  run.best = {{"metric", "test/accuracy"}, {"value", 0.45}, {"epoch", 1.0}, {"step", 2}};
  sweep.write("seed=1", run);
  sweep.write("seed=2", run);
  const Summary summary = sweep.summary({}, ScoredCheckpoint::kLast);
  CHECK(summary.rows.front().accuracy->mean == doctest::Approx(0.9));
  CHECK(summary.scored ==
        "Accuracy and loss: test, last checkpoints, by --last; 2 of 2 runs have a best one.");
  for (const ScoredCheckpoint checkpoint : {ScoredCheckpoint::kBest, ScoredCheckpoint::kLast}) {
    const auto event = nlohmann::json::parse(point_json(summary.points[0], checkpoint, {}));
    CHECK(event["checkpoint"] == to_string(checkpoint));
  }
}

TEST_CASE("collect: a point with damaged files, named and the others are summarized") {
  const Sweep sweep({"train.batch_size=32,64,128"});
  for (const char* point : {"batch_size=32", "batch_size=64", "batch_size=128"}) {
    sweep.write(point, with(1, 0.5));
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
  const auto json = nlohmann::json::parse(table_json(summary));
  CHECK(json["points"][0]["state"] == "damaged");
  CHECK(json["points"][0]["code"] == 3);
  // A run that goes on is not damaged.
  FakeRun part = with(1, 0.5);
  part.finished = false;
  sweep.write("batch_size=32", part);
  CHECK(collect(sweep.plan)[0].kind == PointState::Kind::kStopped);
  CHECK_FALSE(collect(sweep.plan)[0].run);
}

TEST_CASE("accuracy_sentence: the cheapest or fastest point that reaches an accuracy") {
  const Sweep sweep({"parallel.gpus=1,2"});
  FakeRun slow = with(1, 1), fast = with(2, 0.75);
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

TEST_CASE("table_csv and table_markdown and table_json: the same values") {
  const Sweep sweep({"parallel.gpus=1,2"});
  sweep.write("gpus=1", with(1, 0.5));
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
  const auto json = nlohmann::json::parse(table_json(summary));
  CHECK(json["rows"][0]["images_per_second"] == 64);
  CHECK(json["rows"][1]["images_per_second"].is_null());
  CHECK(json["points"][0]["accuracy"] == 0.9);
  CHECK(json["points"][1]["state"] == "not started");
}

TEST_CASE("make_cells: no repeated columns, intervals in one column and shares in percent") {
  const Sweep sweep({"parallel.gpus=1,2", "seed=1,2"});
  sweep.write("gpus=1_seed=1", with(1, 0.5, 80));
  sweep.write("gpus=1_seed=2", with(1, 0.5, 90));
  FakeRun two = with(2, 0.9, 85);
  two.wait_seconds = 0.225;
  sweep.write("gpus=2_seed=1", two);
  const auto cells = make_cells(sweep.summary());
  const auto cell = [&](std::size_t row, const std::string& heading) {
    const auto found = std::find(cells[0].begin(), cells[0].end(), heading);
    return found == cells[0].end() ? "no column"
                                   : cells[row][static_cast<std::size_t>(found - cells[0].begin())];
  };
  CHECK(cell(1, "runs") == "2");  // not one of each row
  CHECK(cell(1, "replicas") == "no column");
  CHECK(cell(1, "accuracy") == "0.8500");
  CHECK(cell(1, "95 % interval") == "0.2147-1.0000");
  CHECK(cell(2, "data wait") == "25 %");
  CHECK(cell(2, "efficiency") == "56 %");
  CHECK(cell(1, "efficiency") == "-");
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
  // Where the values do not say how many replicas there are, a column does.
  const Sweep all({"parallel.gpus=all"});
  all.write("gpus=all", with(2, 0.5));
  CHECK(make_cells(all.summary())[0][1] == "replicas");
}

// Writes down what a sweep tells.
struct Told : SweepObserver {
  std::vector<std::string> lines;
  void on_start(std::size_t, const Point& point) override { lines.push_back(point.name); }
  void on_progress(std::size_t, std::int64_t step, std::int64_t total,
                   std::optional<double> eta) override {
    lines.push_back(concat(step, " of ", total, eta ? concat(", eta ", *eta) : ""));
  }
  void on_end(std::size_t, const PointState& state, std::optional<double> eta) override {
    lines.push_back(concat(state.message, eta ? concat(", eta ", *eta) : ""));
  }
};

TEST_CASE("run_sweep: events of the runs are read, and each run gets one value per variable") {
  Sweep sweep({"parallel.gpus=1"});
  sweep.plan.environment = {{"NUM_GPUS", "1 2"}, {"BATCH_SIZE", "8 16"}};
  sweep.plan.points[0].environment = {{"BATCH_SIZE", "8"}};
  const Path program = sweep.folder.path() / "program";
  write_file_atomic(program,
                    "#!/bin/sh\n"
                    "echo '{\"event\":\"start\",\"total_steps\":4,\"first_step\":1}'\n"
                    "echo '{\"event\":\"step\",\"step\":1}'\n"
                    "echo 'no event'\n"
                    "echo '{\"event\":\"step\",\"step\":4}'\n"
                    "echo \"error: gpus ${NUM_GPUS-none}, batch $BATCH_SIZE\" >&2\nexit 4\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  Told told;
  const auto states = run_sweep(sweep.plan, program, told);
  REQUIRE(states.size() == 1);
  CHECK(states[0].kind == PointState::Kind::kFailed);
  CHECK(states[0].code == 4);
  // Nothing is left behind the last step of the last point, whatever the time.
  CHECK(told.lines ==
        std::vector<std::string>{"gpus=1", "1 of 4", "4 of 4, eta 0", "gpus none, batch 8, eta 0"});
}

TEST_CASE("slurm_script: a job array with one task per point") {
  const Sweep sweep({"parallel.gpus=1,2", "data.path='a b'"});
  const std::string script = slurm_script(sweep.plan, "/opt/trainer");
  CHECK(contains(script, "#SBATCH --array=0-1\n"));
  CHECK(contains(script, "--set parallel.gpus=2"));
  CHECK(contains(script, "--set 'data.path='\\''a b'\\'''"));
}

TEST_CASE("kubernetes_jobs: one Job per point") {
  const Sweep sweep({"parallel.gpus=1,2"});
  const std::string jobs = kubernetes_jobs(sweep.plan, "registry/trainer:1");
  CHECK(contains(jobs, "name: fake-gpus-1-0\n"));
  CHECK(contains(jobs, "name: fake-gpus-2-1\n"));
  CHECK(contains(jobs, "nvidia.com/gpu: \"2\""));
  CHECK(contains(jobs, "image: \"registry/trainer:1\""));
  const Sweep cpu({"parallel.gpus=2", "parallel.device=cpu"});
  CHECK_FALSE(contains(kubernetes_jobs(cpu.plan, "x"), "nvidia.com"));
}

TEST_CASE("slurm_script: names and folders with '#', quotes and '%', quoted as sbatch reads them") {
  Sweep sweep({"parallel.gpus=1"});
  sweep.plan.name = "exp #2 \"x\" \\";
  sweep.plan.folder = "runs/50% #3";
  const std::string script = slurm_script(sweep.plan, "/opt/trainer");
  CHECK(contains(script, R"(
#SBATCH --job-name="exp #2 \"x\" \\_sweep"
)"));
  CHECK(contains(script, R"(
#SBATCH --output="runs/50%% #3/slurm-%a.out"
)"));
  CHECK(contains(script, "--run-dir 'runs/50% #3/gpus=1'"));
  sweep.plan.name = "a\ntouch b";
  CHECK_THROWS_WITH_AS(slurm_script(sweep.plan, "x"), doctest::Contains("line break"), ConfigError);
  sweep.plan.name = "a";
  sweep.plan.folder = "a\nb";
  CHECK_THROWS_WITH_AS(slurm_script(sweep.plan, "x"), doctest::Contains("line break"), ConfigError);
}

TEST_CASE("kubernetes_jobs: words with quotes, dollars and line breaks, one string each") {
  Sweep sweep({"parallel.gpus=1"});
  sweep.plan.folder = "a\n  b: \"$(HOME)\" \\ #c";
  const std::string jobs = kubernetes_jobs(sweep.plan, "x\ny");
  CHECK(contains(jobs, R"("--run-dir", "a\n  b: \"$$(HOME)\" \\ #c/gpus=1")"));
  CHECK(contains(jobs, "image: \"x\\ny\"\n"));
  sweep.plan.folder = "a\xff";
  CHECK_THROWS_WITH_AS(kubernetes_jobs(sweep.plan, "x"), doctest::Contains("not UTF-8"),
                       ConfigError);
}

TEST_CASE("make_arguments: a folder and texts of variables, unchanged") {
  Sweep sweep({"parallel.gpus=1"});
  sweep.plan.folder = " my exp #3: 'a'_sweep";
  sweep.plan.overrides = {{"name", "a #b", "$NAME"},
                          {"seed", "3", "--set", config::Override::Syntax::kYaml}};
  const std::vector<std::string> words = make_arguments(sweep.plan, sweep.plan.points[0]);
  CHECK(words[4] == "--run-dir");
  CHECK(words[5] == " my exp #3: 'a'_sweep/gpus=1");
  CHECK(words[6] == "--features-dir");
  CHECK(words[7] == " my exp #3: 'a'_sweep/features");
  CHECK(words[9] == "name=\"a #b\"");
  CHECK(words[11] == "seed=3");
  CHECK(words[13] == "parallel.gpus=1");
}

TEST_CASE("make_points: more points than the limit, an error with the option that raises it") {
  std::vector<Axis> axes(6, Axis{"seed", {}, ""});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    axes[i].key = concat("key", i);
    for (int value = 0; value < 10; ++value) axes[i].values.push_back(std::to_string(value));
  }
  CHECK_THROWS_WITH_AS(make_points(axes),
                       doctest::Contains("the sweep has 1000000 points, the limit is 1000: give "
                                         "fewer values, or raise the limit with --max-points "
                                         "1000000"),
                       ConfigError);
  axes.resize(3);
  CHECK(make_points(axes).size() == 1000);
  CHECK_THROWS_AS(make_points(axes, 999), ConfigError);
  axes.resize(30, axes.front());  // more than 2^63
  CHECK_THROWS_AS(make_points(axes, std::numeric_limits<std::int64_t>::max() - 1), ConfigError);
}

TEST_CASE("make_points: long values, valid file names that differ") {
  const std::string value(300, '1');
  const std::vector<Point> points = make_points({{"seed", {value, value + "2"}, ""}});
  REQUIRE(points.size() == 2);
  CHECK(points[0].name.size() == 200);
  CHECK(points[0].name.starts_with("seed=111"));
  CHECK(points[0].name != points[1].name);
  CHECK(points[0].values[0].second == value);
}

}  // namespace
}  // namespace trainer::commands
