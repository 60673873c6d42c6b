// Several processes that train one model, as TF_CONFIG starts them.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "program.h"

namespace trainer::e2e {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kTimeout = 5;  // parallel.timeout, seconds

// 321 samples: the last batch of 32 has one, so that the last worker has none.
std::string config_of(const Workspace& work) {
  return work.config(R"(model:
  layers:
    - conv: {filters: 6, activation: relu}
    - max_pool
    - conv: {filters: 8, activation: relu}
    - max_pool
    - flatten
    - dropout: 0.2
    - dense: 10
data: {format: idx, limit: 321, path: )" +
                     work.data() + R"(}
optimizer: {sgd: {learning_rate: 0.02, momentum: 0.9}, accumulate: 2, ema: 0.9}
train: {epochs: 25, batch_size: 32}
parallel: {reduction: ordered, threads: 1, timeout: 5 seconds}
run: {checkpoint_every: 7 steps, evaluate_every: 40 steps, log_every: 1 steps}
)");
}

struct Cluster {
  int first = draw_port(), second = draw_port();

  Environment task(const std::string& type, int index, const Json& more = Json::object()) const {
    Json cluster = more;
    for (const int port : {first, second}) {
      cluster["worker"].push_back("127.0.0.1:" + std::to_string(port));
    }
    const Json config{{"cluster", cluster}, {"task", {{"type", type}, {"index", index}}}};
    return {{"TF_CONFIG", config.dump()}};
  }
};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

Arguments alone(const std::string& config, const Path& dir) {
  return {"train", config, "--json", "--run-dir", dir};
}

// One of two workers, with the same global batch as `alone`.
Arguments shared(const std::string& config, const Path& dir) {
  return with(alone(config, dir),
              {"--batch-size", "16", "--set", "parallel.lr_scaling=none", "--resume"});
}

struct Two {
  explicit Two(const Arguments& arguments, const Arguments& of_second = {})
      : chief(arguments, cluster.task("worker", 0)),
        other(with(arguments, of_second), cluster.task("worker", 1)) {}
  std::array<Result, 2> wait() { return {chief.wait(), other.wait()}; }

  Cluster cluster;
  Program chief, other;
};

struct Reference {
  Workspace work;
  std::string config = config_of(work);
  Json finished;

  Reference() {
    const Result result = run(alone(config, work / "whole"));
    INFO(result.err);
    REQUIRE(result.code == 0);
    finished = result.event("finished");
  }

  void check_resumed(const Path& dir, const Arguments& more = {}) const {
    const auto results = Two(with(shared(config, dir), more)).wait();
    INFO(results[0].err, results[1].err);
    REQUIRE(results[0].code == 0);
    CHECK(results[1].code == 0);
    CHECK(results[1].out == "");
    CHECK(results[1].err == "");
    const Json now = results[0].event("finished");
    CHECK(now.at("parameters_sha256") == finished.at("parameters_sha256"));
    CHECK(now.at("metrics") == finished.at("metrics"));
    CHECK(now.at("steps") == finished.at("steps"));
  }
};

// The one that is left must end in time, and say who is gone and what was going on.
void check_survivor(Program& survivor, Program& killed, int rank_of_killed) {
  const auto start = Clock::now();
  killed.signal(SIGKILL);
  const std::string name =
      "rank " + std::to_string(rank_of_killed) + " (worker:" + std::to_string(rank_of_killed);
  const std::string process = "process " + std::to_string(killed.pid()) + ")";
  REQUIRE(killed.wait().code == -SIGKILL);
  const Result result = survivor.wait();
  INFO(result.err);
  CHECK(result.code == 4);
  // Twice the deadline is for a loaded machine.
  CHECK(std::chrono::duration<double>(Clock::now() - start).count() < 2 * kTimeout);
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  for (const std::string& part : {name, "on " + std::string(host.data()) + ",", process,
                                  std::string("killed"), std::string("step ")}) {
    INFO(part);
    CHECK(result.err.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("two workers by TF_CONFIG, stopped in any way, end as one process") {
  const Reference reference;
  const Arguments first = shared(reference.config, reference.work / "run");

  SUBCASE("not stopped, with checkpoints by the clock") {
    reference.check_resumed(reference.work / "run", {"--set", "run.checkpoint_every=0.05 seconds"});
  }
  SUBCASE("SIGTERM to one of them stops both") {
    Two job(first);
    REQUIRE(job.chief.wait_for("\"step\":13,"));
    job.other.signal(SIGTERM);
    const auto results = job.wait();
    INFO(results[0].err, results[1].err);
    CHECK(results[0].code == 75);
    CHECK(results[1].code == 75);
    CHECK(results[0].event("finished").at("reason") == "interrupted");
    CHECK(results[1].out == "");
    reference.check_resumed(reference.work / "run");
  }
  SUBCASE("a worker is killed") {
    Two job(first);
    REQUIRE(job.chief.wait_for("\"step\":13,"));
    check_survivor(job.chief, job.other, 1);
    reference.check_resumed(reference.work / "run");
  }
  SUBCASE("the chief is killed") {
    Two job(first);
    REQUIRE(job.chief.wait_for("\"step\":13,"));
    check_survivor(job.other, job.chief, 0);
    reference.check_resumed(reference.work / "run");
  }
}

TEST_CASE("workers that evaluate again and again are interrupted at any moment") {
  const Workspace work;
  const std::string config = config_of(work);
  const Arguments more{"--epochs", "10", "--set", "run.evaluate_every=1 steps"};
  const Json whole = run(with(alone(config, work / "whole"), more)).event("finished");
  int interruptions = 0;
  Result last;
  do {
    Two job(with(shared(config, work / "run"), more));
    if (interruptions < 8 && job.chief.wait_for("\"event\":\"step\"")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(7 * interruptions));
      (interruptions % 2 == 0 ? job.chief : job.other).signal(SIGTERM);
    }
    const auto results = job.wait();
    INFO(results[0].err, results[1].err);
    CHECK(results[1].code == results[0].code);
    last = results[0];
  } while (last.code == 75 && ++interruptions < 100);
  CHECK(interruptions > 0);
  REQUIRE(last.code == 0);
  CHECK(last.event("finished").at("parameters_sha256") == whole.at("parameters_sha256"));
  CHECK(last.event("finished").at("metrics") == whole.at("metrics"));
}

TEST_CASE("batch norm over all workers is that of one process") {
  const Workspace work;
  const std::string config =
      work.config(kModel + ("data: {format: idx, limit: 321, path: " + work.data() + R"(}
optimizer: {sgd: {learning_rate: 0.02}}
train: {max_steps: 12, batch_size: 32}
parallel: {threads: 1, batch_norm: {sync: true}}
)"));
  const Result whole = run(alone(config, work / "whole"));
  const auto results = Two(shared(config, work / "run")).wait();
  INFO(whole.err, results[0].err, results[1].err);
  REQUIRE(results[0].code == 0);
  const Json expected = whole.event("finished").at("metrics").at("test");
  CHECK(results[0].event("finished").at("metrics").at("test").at("loss").get<double>() ==
        doctest::Approx(expected.at("loss").get<double>()).epsilon(1e-4));
}

TEST_CASE("workers that were told different things all say so") {
  const Workspace work;
  const auto results =
      Two(shared(config_of(work), work / "run"), {"--set", "train.max_steps=3", "--seed", "8"})
          .wait();
  for (const Result& result : results) {
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find("rank 1 (worker:1 on ") != std::string::npos);
    CHECK(result.err.find("'seed: 8', not 'seed: 7'") != std::string::npos);
  }
}

TEST_CASE("what workers need to be told") {
  const Workspace work;
  const std::string config = config_of(work);
  const Cluster cluster;
  const Result scaling = run(alone(config, work / "run"), cluster.task("worker", 0));
  CHECK(scaling.code == 2);
  CHECK(scaling.err.find("parallel.lr_scaling: must be given with 2 workers") != std::string::npos);
  const Json servers{{"ps", {"127.0.0.1:" + std::to_string(draw_port())}}};
  const Result server = run(shared(config, work / "run"), cluster.task("worker", 0, servers));
  CHECK(server.code == 2);
  CHECK(server.err.find("the cluster of TF_CONFIG has ps tasks") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(work / "run"));
}

TEST_CASE("an evaluator follows the run of the workers") {
  const Workspace work;
  const Arguments arguments =
      with(shared(config_of(work), work / "run"),
           {"--set", "evaluate.start_delay_secs=0", "--set", "evaluate.throttle_secs=0", "--set",
            "evaluate.timeout_secs=60"});
  Two job(arguments);
  Program evaluator(arguments, job.cluster.task("evaluator", 0));
  const auto results = job.wait();
  INFO(results[0].err, results[1].err);
  REQUIRE(results[0].code == 0);
  const Result followed = evaluator.wait();
  INFO(followed.err);
  REQUIRE(followed.code == 0);
  const Json trained = results[0].event("finished");
  CHECK(followed.event("followed").at("reason") == "done");
  CHECK(followed.event("evaluation").at("step") == trained.at("steps"));
  CHECK(followed.event("evaluation").at("loss") == trained.at("metrics").at("test").at("loss"));
}

}  // namespace trainer::e2e
