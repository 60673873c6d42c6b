// `evaluate --follow` beside a training process, or after it.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "program.h"

namespace trainer::e2e::follow_test {
namespace {

std::string build_config(const Workspace& work) {
  return work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(, limit: 320}
optimizer: {adam: {learning_rate: 3.0e-3}}
train: {epochs: 6, batch_size: 32}
run: {checkpoint_every: 2 steps, keep: 1, log_every: 100 steps}
)"));
}

Arguments train(const std::string& config, const Path& run) {
  return {"train", config, "--json", "--run-dir", run};
}
Arguments follow(const Path& run, const char* timeout = "60") {
  return {"evaluate", run,          "--follow", "--json",    "--start-delay",
          "0",        "--throttle", "0",        "--timeout", timeout};
}

std::vector<Json> rows(const Path& path) {
  std::vector<Json> parsed;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) parsed.push_back(Json::parse(line));
  return parsed;
}

std::vector<std::int64_t> read_steps(const Result& result) {
  std::vector<std::int64_t> steps;
  for (const Json& line : result.lines()) {
    if (line.at("event") == "evaluation") steps.push_back(line.at("step"));
  }
  return steps;
}

const std::string kCheckpoint = "\"event\":\"checkpoint\"";

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

std::string content(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE(
    "evaluate --follow evaluates checkpoints of a run in training as they appear, and the last") {
  const Workspace work;
  const Path dir = work / "run";
  const std::string config = build_config(work);
  Program follower(follow(dir));  // before there is a run
  const Result trained = run(train(config, dir));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Result followed = follower.wait();
  INFO(followed.err);
  REQUIRE(followed.code == 0);

  const std::vector<std::int64_t> steps = read_steps(followed);
  REQUIRE(!steps.empty());
  CHECK(steps.back() == 60);
  CHECK(std::set(steps.begin(), steps.end()).size() == steps.size());
  CHECK(std::is_sorted(steps.begin(), steps.end()));
  const Json last = followed.event("evaluation");
  const Json test = trained.event("finished").at("metrics").at("test");
  CHECK(last.at("split") == "test");
  CHECK(last.at("loss") == test.at("loss"));
  CHECK(last.at("accuracy") == test.at("accuracy"));
  CHECK(last.at("epoch") == 6);
  const Json end = followed.event("followed");
  CHECK(end.at("reason") == "done");
  CHECK(end.at("evaluations") == steps.size());
  // One of step 0 and one every two steps, most of them removed by the next.
  const auto skipped = end.at("skipped").get<std::size_t>();
  CHECK(steps.size() + skipped == 31);
  CHECK(count(followed.err, " are not evaluated: only the newest is") == (skipped > 0 ? 1 : 0));

  // What it leaves lies in a folder of its own.
  const Path folder = dir / "evaluator" / "test";
  const auto own = rows(folder / "metrics.jsonl");
  REQUIRE(own.size() == steps.size());
  for (std::size_t i = 0; i < own.size(); ++i) CHECK(own[i].at("step") == steps[i]);
  CHECK(std::filesystem::exists(folder / "metrics.csv"));
  CHECK(!std::filesystem::is_empty(folder / "tensorboard"));

  // Nothing is left to do for another one, and nothing is written.
  const std::string metrics = content(dir / "metrics.jsonl");
  const Result again = run(follow(dir));
  CHECK(again.code == 0);
  CHECK(read_steps(again).empty());
  CHECK(again.event("followed").at("step") == 60);
  CHECK(rows(folder / "metrics.jsonl") == own);
  CHECK(content(dir / "metrics.jsonl") == metrics);

  // Another split has its own; the throttle does not matter once nobody trains.
  const Result other =
      run({"evaluate", dir, "--follow", "--json", "--split", "train", "--start-delay", "0"});
  CHECK(other.code == 0);
  CHECK(read_steps(other) == std::vector<std::int64_t>{60});
  CHECK(other.event("followed").at("skipped") == 30);
  CHECK(count(other.err, "the checkpoints of steps 0, 2, 4, 6, 8 and 25 more are not eval") == 1);
  // The follower's files belong to the run that they measured.
  REQUIRE(
      run({"train", config, "--quiet", "--run-dir", dir, "--overwrite", "--epochs", "1"}).code ==
      0);
  CHECK(!std::filesystem::exists(dir / "evaluator"));
  CHECK(read_steps(run(follow(dir))) == std::vector<std::int64_t>{10});
}

TEST_CASE("evaluate --follow waits for a process that resumes or replaces a finished run") {
  const Workspace work;
  const Path dir = work / "run";
  const std::string config = build_config(work);
  const auto train_for = [&](const char* how, const char* epochs) {
    return run({"train", config, "--quiet", "--run-dir", dir, how, "--epochs", epochs});
  };
  REQUIRE(train_for("--resume", "1").code == 0);
  REQUIRE(read_steps(run(follow(dir))) == std::vector<std::int64_t>{10});

  const auto patient = [&](const char* delay) -> Arguments {
    return {"evaluate", dir, "--follow", "--json", "--start-delay", delay, "--throttle", "0"};
  };
  {
    Program follower(patient("1000"));
    REQUIRE(follower.wait_for("waiting 1000 seconds"));
    REQUIRE(train_for("--resume", "2").code == 0);
    const Result followed = follower.wait();
    CHECK(followed.code == 0);
    CHECK(read_steps(followed) == std::vector<std::int64_t>{20});
    CHECK(followed.event("followed").at("reason") == "done");
  }
  // The steps of a run that replaces this one are steps of its own.
  Program follower(patient("1000"));
  REQUIRE(follower.wait_for("waiting 1000 seconds"));
  REQUIRE(train_for("--overwrite", "1").code == 0);
  const Result followed = follower.wait();
  INFO(followed.err);
  CHECK(followed.code == 0);
  CHECK(read_steps(followed) == std::vector<std::int64_t>{10});
  const auto own = rows(dir / "evaluator" / "test" / "metrics.jsonl");
  REQUIRE(own.size() == 1);
  CHECK(own[0].at("step") == 10);
}

TEST_CASE(
    "evaluate --follow uses the split and files of a run of another config that replaces this "
    "one") {
  const Workspace work;
  const Path dir = work / "run";
  const std::string config = build_config(work);
  REQUIRE(run({"train", config, "--quiet", "--run-dir", dir, "--epochs", "1"}).code == 0);
  REQUIRE(read_steps(run(follow(dir))) == std::vector<std::int64_t>{10});

  Program follower({"evaluate", dir, "--follow", "--json", "--start-delay", "1000"});
  REQUIRE(follower.wait_for("waiting 1000 seconds"));
  REQUIRE(run({"train", config, "--quiet", "--run-dir", dir, "--overwrite", "--epochs", "1",
               "--set", "data.validation_split=0.5", "--set", "run.tensorboard=false"})
              .code == 0);
  const Result followed = follower.wait();
  INFO(followed.err);
  CHECK(followed.code == 0);
  CHECK(read_steps(followed) == std::vector<std::int64_t>{5});
  CHECK(followed.event("evaluation").at("split") == "validation");
  CHECK(rows(dir / "evaluator" / "validation" / "metrics.jsonl").size() == 1);
  CHECK(!std::filesystem::exists(dir / "evaluator" / "validation" / "tensorboard"));
}

TEST_CASE("evaluate --follow waits for an interrupted run until a signal or the timeout") {
  const Workspace work;
  const Path dir = work / "run";
  Program training({"train", build_config(work), "--json", "--run-dir", dir, "--epochs", "100000"});
  REQUIRE(training.wait_for(kCheckpoint, 3));
  training.signal(SIGKILL);
  training.wait();

  Program follower(follow(dir));
  REQUIRE(follower.wait_for("\"event\":\"evaluation\""));
  follower.signal(SIGTERM);
  const Result stopped = follower.wait();
  CHECK(stopped.code == 75);
  CHECK(read_steps(stopped).size() == 1);
  CHECK(stopped.event("followed").at("reason") == "interrupted");

  const Result late = run(follow(dir, "0.3"));
  CHECK(late.code == 3);
  CHECK(read_steps(late).empty());
  CHECK(late.err.find("no new checkpoint for 0.3 seconds") != std::string::npos);
  CHECK(late.err.find("No process trains there") != std::string::npos);
  const Result nowhere = run(follow(work / "nowhere", "0.3"));
  CHECK(nowhere.code == 3);
  CHECK(nowhere.err.find("waiting for it") != std::string::npos);
}

TEST_CASE(
    "evaluate --follow evaluates nothing before start delay and throttle pass or the run ends") {
  const Workspace work;
  const Path dir = work / "run";
  Program training({"train", build_config(work), "--json", "--run-dir", dir, "--epochs", "100000"});
  REQUIRE(training.wait_for(kCheckpoint, 2));
  Program follower(
      {"evaluate", dir, "--follow", "--json", "--start-delay", "0", "--throttle", "1000"});
  Program delayed(
      {"evaluate", dir, "--follow", "--json", "--start-delay", "1000", "--split", "train"});
  REQUIRE(follower.wait_for("\"event\":\"evaluation\""));
  // The run goes on by many checkpoints; the throttle lets none of them pass.
  REQUIRE(training.wait_for(kCheckpoint, count(training.output(), kCheckpoint) + 10));
  training.signal(SIGTERM);
  const std::int64_t last = training.wait().event("finished").at("steps");
  follower.wait_for("\"step\":" + std::to_string(last) + ",\"epoch\"");
  delayed.wait_for("\"step\":" + std::to_string(last) + ",\"epoch\"");
  follower.signal(SIGTERM);
  delayed.signal(SIGTERM);
  const std::vector<std::int64_t> steps = read_steps(follower.wait());
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] < last);
  CHECK(steps[1] == last);
  CHECK(read_steps(delayed.wait()) == std::vector<std::int64_t>{last});
}

}  // namespace trainer::e2e::follow_test
