// The state of runs by the files that another process leaves.
#include "results/run_files/run_progress.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "base/process/process.h"
#include "results/run_files/run_warnings.h"
#include "results/support.h"
#include "support/contains.h"

namespace trainer::results {
namespace {

using test::contains;

struct WatchedFolder {
  TemporaryFolder folder;
  WatchedRun run = {};

  const Path& path() const { return folder.path(); }
  // `process`: the number of the process that the lock names.
  void lock(std::int64_t process, const std::string& host = host_name()) const {
    write_file_atomic(path() / "lock", concat("process ", process, " on ", host, "\n"));
  }
  void append(const std::string& file, const std::string& text) const {
    write_file_atomic(path() / file, read_text_file(path() / file) + text);
  }
  const RunProgress& look() {
    look_at_run(path(), run);
    return run.progress;
  }
};

constexpr std::int64_t kNoProcess = 1 << 30;

test::FakeRun unfinished() {
  test::FakeRun fake;
  fake.finished = false;
  return fake;
}

TEST_CASE("look_at_run shows a folder from before the run to its end") {
  WatchedFolder run;
  WatchedRun missing;
  look_at_run(run.path() / "missing", missing);
  CHECK(missing.progress.state == RunState::kWaiting);
  CHECK(contains(missing.progress.reason, "no such folder"));
  CHECK(run.look().state == RunState::kWaiting);
  run.lock(::getpid());
  CHECK(run.look().state == RunState::kStarting);
  test::write_run(run.path(), unfinished());
  CHECK(run.look().state == RunState::kRunning);
  CHECK(run.look().reason.empty());
  test::write_run(run.path(), {});
  CHECK(run.look().state == RunState::kRunning);  // the process still holds the lock
  write_file_atomic(run.path() / "lock", std::string());
  CHECK(run.look().state == RunState::kFinished);
  CHECK(run.look().reason == "done");
  CHECK(is_over(run.look().state));
}

TEST_CASE("look_at_run separates a run that was killed from one that was stopped") {
  WatchedFolder run;
  run.lock(kNoProcess);
  CHECK(run.look().state == RunState::kKilled);
  CHECK(contains(run.look().reason, "before the first step"));
  test::write_run(run.path(), unfinished());
  CHECK(run.look().state == RunState::kKilled);
  CHECK_FALSE(run.look().seconds_left);
  write_file_atomic(run.path() / "lock", std::string());
  CHECK(run.look().state == RunState::kStopped);
  CHECK(contains(run.look().reason, "--resume"));
}

TEST_CASE("look_at_run reads the step, the speed and the time to the end from the newest rows") {
  WatchedFolder run;
  test::FakeRun fake = unfinished();
  fake.steps = 100;
  test::write_run(run.path(), fake);
  auto record = test::Json::parse(read_text_file(run.path() / "run.json"));
  record["total_steps"] = 400;
  write_file_atomic(run.path() / "run.json", record.dump());
  // Rows that stand for two steps each are twice as fast as the rows before.
  for (int step = 102; step <= 200; step += 2) {
    run.append("ledger.csv", concat(step, ",64,0.5,0.001,00,0.5,0.5,0.25,\n"));
  }
  run.lock(::getpid());
  const RunProgress& progress = run.look();
  CHECK(progress.step == 200);
  CHECK(progress.epoch == 100);
  CHECK(progress.images_per_second == doctest::Approx(128));
  CHECK(progress.wait_share == doctest::Approx(0.5));
  REQUIRE(progress.seconds_left);
  CHECK(*progress.seconds_left == doctest::Approx(50));
  REQUIRE(progress.metrics.size() == 2);
  CHECK(progress.metrics[0].first == "train");
  CHECK(progress.metrics[0].second.step == 100);
  CHECK(progress.metrics[1].second.accuracy == doctest::Approx(0.9));

  std::filesystem::remove(run.path() / "ledger.csv");
  CHECK(run.look().step == 100);
  CHECK(*run.look().seconds_left == doctest::Approx(150));  // two steps per second
}

TEST_CASE("look_at_run keeps what it has read while a file of a run in training is half written") {
  WatchedFolder run;
  test::write_run(run.path(), unfinished());
  run.lock(::getpid());
  run.append("ledger.csv", "5,32,0.1");
  run.append("metrics.csv", "5,2.5,tra");
  CHECK(run.look().step == 4);
  CHECK(run.look().warnings.empty());
  run.append("ledger.csv", "\n");
  CHECK(run.look().step == 4);
  CHECK(run.look().state == RunState::kRunning);
  REQUIRE(run.look().warnings.size() == 1);
  CHECK(contains(run.look().warnings[0], "cannot read: "));
  CHECK(run.run.files.metrics.size() == 6);
  write_file_atomic(run.path() / "lock", std::string());
  CHECK(run.look().state == RunState::kDamaged);
  CHECK(contains(run.look().reason, "ledger.csv:"));
}

TEST_CASE("look_at_run shows what train has warned of, a straggler and a process without output") {
  WatchedFolder run;
  test::write_run(run.path(), unfinished());
  auto record = test::Json::parse(read_text_file(run.path() / "run.json"));
  record["data_notices"] = {{{"kind", "note"}, {"text", "a fact"}},
                            {{"kind", "warning"}, {"text", "few samples"}}};
  write_file_atomic(run.path() / "run.json", record.dump());
  write_file_atomic(run.path() / "metrics.csv",
                    std::string("step,split,loss,straggler\n1,train,0.5,\n2,train,0.5,3\n"));
  run.lock(1, "another-machine");
  add_run_warning(run.path(), {"2026-11-27T00:06:12.250Z", "the loss \x1b rose"});
  add_run_warning(run.path(), {"2026-11-27T00:06:13.250Z", "the loss fell"});
  run.append("warnings.jsonl", "{\"time\": \"2026");  // a line that is being written
  CHECK(run.look().straggler == 3);
  CHECK(run.look().warnings ==
        std::vector<std::string>{"few samples", "the loss \\x1b rose", "the loss fell",
                                 "rank 3 is slow: the other ranks wait for it"});
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(150);
  for (const char* file : {"lock", "run.json", "metrics.csv", "ledger.csv"}) {
    std::filesystem::last_write_time(run.path() / file, before);
  }
  CHECK(run.look().state == RunState::kRunning);
  REQUIRE(run.look().warnings.size() == 5);
  CHECK(run.look().warnings[4] ==
        "nothing was written for 2 minutes; the process is on another machine, so that its end "
        "cannot be seen here");
  // A row that took a minute itself may be silent for three.
  run.append("ledger.csv", "5,64,0.5,0.001,00,60,60,0.25,\n");
  std::filesystem::last_write_time(run.path() / "ledger.csv", before);
  CHECK(run.look().warnings.size() == 4);
  write_file_atomic(run.path() / "lock", std::string());
  std::filesystem::last_write_time(run.path() / "lock", before);
  CHECK(run.look().warnings.size() == 4);
}

TEST_CASE("read_run_warnings returns the newest warnings of a file of many") {
  const TemporaryFolder folder;
  CHECK(read_run_warnings(folder.path()).empty());
  for (int i = 0; i < 103; ++i) {
    add_run_warning(folder.path(), {"2026-11-27T00:06:12.250Z", concat("warning ", i)});
  }
  const std::vector<RunWarning> newest = read_run_warnings(folder.path());
  REQUIRE(newest.size() == 100);
  CHECK(newest.front().text == "warning 3");
  CHECK(newest.back().text == "warning 102");
}

TEST_CASE("read_run reads the newest rows of a long ledger, and its header") {
  const TemporaryFolder folder;
  test::FakeRun fake;
  fake.steps = 3000;
  test::write_run(folder.path(), fake);
  const RunFiles all = read_run(folder.path()),
                 newest = read_run(folder.path(), LedgerRows::kNewest);
  CHECK(all.ledger.size() == 3000);
  CHECK(newest.ledger.size() > 500);
  CHECK(newest.ledger.size() < 2000);
  CHECK(newest.ledger.back().step == 3000);
  CHECK(newest.ledger.back().seconds == 0.5);
  CHECK(newest.ledger.front().step == 3001 - std::ssize(newest.ledger));
}

}  // namespace
}  // namespace trainer::results
