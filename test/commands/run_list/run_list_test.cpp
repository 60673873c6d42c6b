// The list of runs, and the removal of their old checkpoints.
#include "commands/run_list/run_list.h"

#include <doctest/doctest.h>

#include <sstream>

#include "checkpoint/lock.h"
#include "checkpoint/safetensors.h"
#include "results/support.h"
#include "results/write_json.h"
#include "support/contains.h"

namespace trainer::commands {
namespace {

using test::contains;

struct Runs {
  TemporaryFolder folder;

  Path add(const std::string& name, const test::FakeRun& run = {}) const {
    const Path path = folder.path() / name;
    test::write_run(path, run);
    std::filesystem::create_directories(path / "checkpoints");
    return path;
  }
  // Returns its size in bytes.
  static std::int64_t add_checkpoint(const Path& run, const std::string& name) {
    const Path path = run / "checkpoints" / name;
    checkpoint::write_safetensors(path, {{"dense/bias", {3}, {1, 2, 3}}}, {{"step", "1"}});
    return static_cast<std::int64_t>(std::filesystem::file_size(path));
  }
  static void set_start(const Path& run, const std::string& time) {
    auto record = test::Json::parse(read_text_file(run / "run.json"));
    record["sessions"][0]["started"] = time;
    write_file_atomic(run / "run.json", record.dump());
  }
  std::vector<RunRow> list() const { return list_runs({folder.path()}); }
};

TEST_CASE("runs lists folders of runs and of sweeps, the oldest run first with its best value") {
  const Runs runs;
  test::FakeRun best;
  best.best = {{"metric", "test/accuracy"}, {"value", 0.95}, {"epoch", 1}, {"step", 2}};
  Runs::set_start(runs.add("late", best), "2026-11-27T00:06:12Z");
  test::FakeRun stopped;
  stopped.finished = false;
  Runs::set_start(runs.add("sweep/point=1", stopped), "2026-11-26T00:06:12Z");
  std::filesystem::create_directories(runs.folder.path() / "photos/cats");
  std::filesystem::create_directory_symlink(runs.folder.path() / "late",
                                            runs.folder.path() / "link");
  const std::vector<RunRow> rows = runs.list();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].folder.filename() == "point=1");
  CHECK(rows[0].state == "not finished");
  CHECK_FALSE(rows[0].value);
  CHECK(rows[1].state == "done");
  REQUIRE(rows[1].value);
  CHECK(rows[1].value->value == 0.95);
  CHECK(rows[1].value->is_best);
  CHECK(rows[1].data == "nowhere");
  CHECK(rows[1].device == "cpu, oneDNN");

  std::ostringstream table;
  print_runs(rows, {}, table);
  CHECK(contains(table.str(), "2026-11-27 00:06"));
  CHECK(contains(table.str(), "test/accuracy 0.9500"));
  std::ostringstream json;
  results::print_json(RunList{rows}, json);
  const auto event = test::Json::parse(json.str());
  CHECK(event["runs"][1]["best"]["checkpoint"] == "best");
  CHECK(event["runs"][0]["best"].is_null());
}

TEST_CASE("print_runs leaves out the columns that do not fit a narrow terminal") {
  RunRow row;
  row.folder = "runs/photos";
  row.started = "2026-11-27T00:06:12Z";
  row.state = "done";
  row.value = RunValue{"validation/accuracy", 0.95, 2, true};
  row.data = "photos";
  row.device = "cpu, 2 lanes";
  row.checkpoint_bytes = 9'000'000;
  const auto printed = [&](std::optional<int> columns) {
    std::ostringstream out;
    print_runs({row}, columns, out);
    return out.str();
  };
  const std::string whole = printed({});
  CHECK(contains(whole, "device   MB\n"));
  CHECK(contains(whole, "cpu     9.0\n"));
  const int width = static_cast<int>(whole.find('\n'));
  CHECK(printed(width) == whole);
  CHECK(contains(printed(width - 1), "device\n"));
  const std::string narrow = printed(70);
  CHECK(contains(narrow, "validation/accuracy 0.9500\n"));
  CHECK(narrow.find('\n') <= 70);
  CHECK(contains(printed(10), "validation/accuracy 0.9500\n"));  // never less than the value
}

TEST_CASE("runs: a run without a best checkpoint has the value of its end") {
  const Runs runs;
  runs.add("a");
  const std::vector<RunRow> rows = runs.list();
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].value);
  CHECK(rows[0].value->metric == "test/accuracy");
  CHECK(rows[0].value->value == 0.9);
  CHECK_FALSE(rows[0].value->is_best);
}

TEST_CASE("runs: a damaged run has a row with the reason") {
  const Runs runs;
  runs.add("good");
  write_file_atomic(runs.add("bad") / "run.json", std::string("{"));
  const std::vector<RunRow> rows = runs.list();
  REQUIRE(rows.size() == 2);
  std::ostringstream table;
  print_runs(rows, {}, table);
  CHECK(contains(table.str(), "damaged: "));
  CHECK(contains(table.str(), "0.9000 (last)"));
}

TEST_CASE("runs: a folder that does not exist is an error, and an empty one gives the next step") {
  const Runs runs;
  CHECK_THROWS_AS(list_runs({runs.folder.path() / "absent"}), DataError);
  std::ostringstream table;
  print_runs(runs.list(), {}, table);
  CHECK(contains(table.str(), "trainer train photos/"));
}

TEST_CASE("runs clean removes all checkpoints but the newest and the best") {
  const Runs runs;
  const Path run = runs.add("a");
  std::int64_t size = 0;
  for (const char* name :
       {"step-00000001.safetensors", "step-00000002.safetensors", "step-00000003.safetensors"}) {
    size = Runs::add_checkpoint(run, name);
  }
  std::filesystem::create_hard_link(run / "checkpoints/step-00000002.safetensors",
                                    run / "checkpoints/best.safetensors");
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(run / "checkpoints" / name);
  };
  CHECK(runs.list()[0].checkpoint_bytes == 3 * size);  // a second name takes no space

  const auto planned = clean_runs(runs.list(), CleanMode::kDryRun);
  REQUIRE(planned.size() == 1);
  CHECK(planned[0].files.size() == 2);
  CHECK(planned[0].bytes == size);
  CHECK(exists("step-00000001.safetensors"));

  const auto cleaned = clean_runs(runs.list(), CleanMode::kRemove);
  CHECK(cleaned[0].bytes == size);
  CHECK(cleaned[0].skipped.empty());
  CHECK_FALSE(exists("step-00000001.safetensors"));
  CHECK_FALSE(exists("step-00000002.safetensors"));
  CHECK(exists("step-00000003.safetensors"));
  CHECK(exists("best.safetensors"));
  CHECK(clean_runs(runs.list(), CleanMode::kRemove)[0].files.empty());
}

TEST_CASE("runs clean removes nothing through a link named checkpoints") {
  const Runs runs;
  const Path victim = runs.add("victim"), linked = runs.add("linked");
  for (const char* name : {"step-00000001.safetensors", "step-00000002.safetensors"}) {
    Runs::add_checkpoint(victim, name);
  }
  std::filesystem::remove(linked / "checkpoints");
  std::filesystem::create_directory_symlink(victim / "checkpoints", linked / "checkpoints");
  const auto cleaned = clean_runs(list_runs({linked}), CleanMode::kRemove);
  REQUIRE(cleaned.size() == 1);
  CHECK(contains(cleaned[0].skipped, "linked/checkpoints: is a link inside a run folder"));
  CHECK(cleaned[0].files.empty());
  CHECK(std::filesystem::exists(victim / "checkpoints/step-00000001.safetensors"));
}

TEST_CASE("runs clean: all checkpoints stay where the newest is damaged") {
  const Runs runs;
  const Path run = runs.add("a");
  Runs::add_checkpoint(run, "step-00000001.safetensors");
  write_file_atomic(run / "checkpoints/step-00000002.safetensors", std::string(1000, 'x'));
  const auto cleaned = clean_runs(runs.list(), CleanMode::kRemove);
  CHECK(contains(cleaned[0].skipped, "step-00000002.safetensors"));
  CHECK(contains(cleaned[0].skipped, "the older checkpoints are needed"));
  CHECK(std::filesystem::exists(run / "checkpoints/step-00000001.safetensors"));
}

TEST_CASE("runs clean does not change a run that is being trained") {
  const Runs runs;
  const Path run = runs.add("a");
  for (const char* name : {"step-00000001.safetensors", "step-00000002.safetensors"}) {
    Runs::add_checkpoint(run, name);
  }
  const checkpoint::RunLock lock(run);
  CHECK(runs.list()[0].state == "running");
  const auto cleaned = clean_runs(runs.list(), CleanMode::kRemove);
  CHECK_FALSE(cleaned[0].skipped.empty());
  CHECK(std::filesystem::exists(run / "checkpoints/step-00000001.safetensors"));
}

}  // namespace
}  // namespace trainer::commands
