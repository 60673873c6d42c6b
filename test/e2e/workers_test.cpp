// Several processes that train one model, as TF_CONFIG starts them.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "base/error.h"
#include "program.h"
#include "support/contains.h"

namespace trainer::e2e::workers_test {
namespace {

using test::contains;
using Clock = std::chrono::steady_clock;
constexpr double kTimeout = 20;  // parallel.timeout, seconds

// 321 samples: the last batch of 32 has one, so that the first worker has none.
std::string build_config(const Workspace& work) {
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
parallel: {reduction: ordered, threads: 1, timeout: 20 seconds}
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
  std::string config = build_config(work);
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

// The one that is left must end in time, and report who is gone and what was going on.
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
  // The connection of a killed process closes: the deadline itself is not waited for.
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

TEST_CASE("workers: TF_CONFIG workers that are stopped in any way equal one process bit by bit") {
  const Reference reference;
  const Arguments first = shared(reference.config, reference.work / "run");

  SUBCASE("not stopped, with checkpoints by the clock") {
    reference.check_resumed(reference.work / "run", {"--set", "run.checkpoint_every=0.05 seconds"});
  }
  SUBCASE("the chief evaluates alone") {
    reference.check_resumed(reference.work / "run", {"--set", "parallel.evaluate=false"});
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

TEST_CASE("launch prints an error of several ranks once") {
  const Workspace work;
  const auto count_errors = [](const Result& result) {
    INFO(result.err);
    std::size_t count = 0;
    for (std::size_t at = 0; (at = result.err.find("error: ", at)) != std::string::npos; ++at) {
      ++count;
    }
    return count;
  };
  const std::string config = build_config(work);
  const auto launch = [&](const Arguments& more) {
    return run(with({"launch", "-n", "3", "--", "train", config, "--run-dir", work / "run"}, more));
  };
  const Result wrong = launch({"--set", "train.epochs=-1"});  // an error of each rank
  CHECK(wrong.code == kExitConfig);
  CHECK(count_errors(wrong) == 1);
  std::filesystem::create_directories(work / "run");
  write_file_atomic(work / "run/config.yaml", "");
  // An error of rank 0, which the others repeat.
  const Result used = launch({"--set", "parallel.lr_scaling=none"});
  CHECK(used.code == kExitConfig);
  CHECK(contains(used.err, "holds a config.yaml but no checkpoints"));
  CHECK(used.err.find("no checkpoints") == used.err.rfind("no checkpoints"));
}

TEST_CASE("launch restarts the job of a killed worker, which equals one process bit by bit") {
  const Reference reference;
  Arguments arguments = shared(reference.config, reference.work / "run");
  arguments.pop_back();  // --resume, which launch adds when it starts again
  Program job(with({"launch", "-n", "2", "--restarts", "3", "--"}, arguments));
  REQUIRE(job.wait_for("\"step\":13,"));
  const std::string pid = std::to_string(job.pid());
  // The file has size 0 until it is read.
  std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
  int chief = 0, other = 0;
  children >> chief >> other;
  REQUIRE(other > 0);
  ::kill(other, SIGKILL);
  const Result result = job.wait();
  INFO(result.err);
  REQUIRE(result.code == 0);
  CHECK(result.err.find("starts again from its last checkpoint in 1 s (1 of 3)") !=
        std::string::npos);
  CHECK(result.event("start").at("first_step") >= 7);
  CHECK(result.event("finished").at("parameters_sha256") ==
        reference.finished.at("parameters_sha256"));
}

TEST_CASE(
    "workers: interrupted at any moment with many evaluations, they equal one process bit by bit") {
  const Workspace work;
  const std::string config = build_config(work);
  Arguments more{"--epochs", "10", "--set", "run.evaluate_every=1 steps"};
  int most = 5;  // interruptions
  SUBCASE("all of them evaluate") {}
  SUBCASE("the chief evaluates alone") {
    most = 3;
    more = with(more, {"--set", "parallel.evaluate=false"});
  }
  const Json whole = run(with(alone(config, work / "whole"), more)).event("finished");
  int interruptions = 0;
  Result last;
  do {
    Two job(with(shared(config, work / "run"), more));
    if (interruptions < most && job.chief.wait_for("\"event\":\"step\"")) {
      // The moments differ on purpose: some lie within an evaluation.
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

TEST_CASE("workers: early_stop ends at the same step as one process") {
  const Workspace work;
  const std::string config = build_config(work);
  // No loss improves by so much: the second evaluation is the last.
  const Arguments more{
      "--set", "data.validation_split=0.2",   "--set", "run.evaluate_every=4 steps",
      "--set", "train.early_stop.patience=1", "--set", "train.early_stop.min_delta=100"};
  const Result whole = run(with(alone(config, work / "whole"), more));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const Json expected = whole.event("finished");
  CHECK(expected.at("reason") == "early stop");
  CHECK(expected.at("steps") == 8);
  const auto results = Two(with(shared(config, work / "run"), more)).wait();
  INFO(results[0].err, results[1].err);
  REQUIRE(results[0].code == 0);
  CHECK(results[1].code == 0);
  CHECK(results[1].err == "");
  const Json now = results[0].event("finished");
  CHECK(now.at("reason") == "early stop");
  CHECK(now.at("steps") == 8);
  CHECK(now.at("parameters_sha256") == expected.at("parameters_sha256"));
  CHECK(now.at("metrics") == expected.at("metrics"));
  // The run is over for those who come later, too.
  const auto again = Two(with(shared(config, work / "run"), more)).wait();
  REQUIRE(again[0].code == 0);
  CHECK(again[1].code == 0);
  CHECK(again[0].event("finished").at("steps") == 8);
}

TEST_CASE("workers: shard off gives each worker all samples, as replicas of one process") {
  const Workspace work;
  const std::string config = build_config(work);
  const Arguments more{"--epochs",     "2",
                       "--batch-size", "16",
                       "--set",        "parallel.reduction=fast",
                       "--set",        "parallel.shard=off",
                       "--set",        "parallel.lr_scaling=none"};
  const Arguments replicas = with(more, {"--replicas", "2", "--set", "parallel.threads=2"});
  const Result whole = run(with(alone(config, work / "whole"), replicas));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  // 321 samples in batches of 16, two of them per step: 21 batches, 11 steps per epoch.
  CHECK(whole.event("start").at("steps_per_epoch") == 11);
  CHECK(whole.event("start").at("passes_per_epoch") == 2);
  CHECK(whole.event("finished").at("steps") == 22);
  Two job(with(shared(config, work / "run"), more));
  REQUIRE(job.chief.wait_for("\"step\":9,"));
  job.other.signal(SIGTERM);
  const auto stopped = job.wait();
  INFO(stopped[0].err, stopped[1].err);
  CHECK(stopped[0].code == stopped[1].code);
  const auto results = Two(with(shared(config, work / "run"), more)).wait();
  INFO(results[0].err, results[1].err);
  REQUIRE(results[0].code == 0);
  CHECK(results[0].event("finished").at("parameters_sha256") ==
        whole.event("finished").at("parameters_sha256"));
  // One replica of the same global batch would see other samples.
  const Result refused =
      run(with(alone(config, work / "run"), {"--resume", "--set", "parallel.reduction=fast"}));
  CHECK(refused.code == 3);
  CHECK(refused.err.find("parallel.shard was off over 2 replicas, is sample") != std::string::npos);
  const Result verified = run(with({"verify", "replicas", config}, more));
  CHECK(verified.code == 2);
  CHECK(verified.err.find("parallel.shard: with off") != std::string::npos);
}

TEST_CASE("plan prints the rank of a task of a cluster, and simulates larger clusters") {
  const Workspace work;
  const std::string config = build_config(work);
  const Arguments arguments{"plan", config, "--set", "parallel.lr_scaling=none"};
  const Cluster cluster;
  const Result text = run(arguments, cluster.task("worker", 1));
  INFO(text.out, text.err);
  REQUIRE(text.code == 0);
  CHECK(text.out.find("rank 1 of 2, worker:1 at 127.0.0.1:" + std::to_string(cluster.second) +
                      ", by TF_CONFIG") != std::string::npos);
  CHECK(text.out.find("32 per replica, 32 per process, 64 in all") != std::string::npos);
  const Result json = run(with(arguments, {"--json", "--world-size", "4", "--workers", "6",
                                           "--link", "10Gbit", "--step-time", "5ms"}));
  INFO(json.err);
  REQUIRE(json.code == 0);
  const Json plan = json.event("plan"), simulation = json.event("simulation");
  CHECK(plan.at("workers") == 4);
  CHECK(plan.at("global_batch") == 256);  // accumulated twice
  CHECK(plan.at("reduced_bytes_per_step") == 4 * plan.at("trainable_parameters").get<int>());
  CHECK(simulation.at("gradient_bytes") == plan.at("reduced_bytes_per_step"));
  REQUIRE(simulation.at("weak").size() == 4);  // 1, 2, 4, 6
  CHECK(simulation.at("weak")[3].at("samples") == 6 * 64);
  const Result measured =
      run(with(arguments, {"--json", "--gpus", "2", "--link", "1GB/s", "--seconds", "0.05"}));
  INFO(measured.err);
  REQUIRE(measured.code == 0);
  CHECK(measured.event("simulation").at("source").get<std::string>().find("measured in") == 0);
  const Result wrong = run(with(arguments, {"--gpus", "2", "--link", "fast"}));
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("--link: expected a bandwidth") != std::string::npos);
}

TEST_CASE("plan --measured: a measurement of another model or batch is an error") {
  const Workspace work;
  const std::string config = build_config(work);
  const Path measured = work / "measured.jsonl";
  const Result benchmark = run({"benchmark", config, "--seconds", "0.1", "--json"});
  REQUIRE(benchmark.code == 0);
  write_file_atomic(measured, benchmark.out);
  const Arguments predict{"plan",   config,  "--json",     "--workers", "2",
                          "--link", "1Gbit", "--measured", measured};
  const Result same = run(predict);
  INFO(same.err);
  CHECK(same.code == 0);
  const Result model = run(with(predict, {"--set", "model.layers[0].conv.filters=7"}));
  CHECK(model.code == 3);
  CHECK(model.err.find("was measured with parameters ") != std::string::npos);
  const Result batch = run(with(predict, {"--batch-size", "16"}));
  CHECK(batch.code == 3);
  CHECK(batch.err.find("was measured with batch_size 32, here it is 16") != std::string::npos);
  const Result input = run({"benchmark", config, "--seconds", "0.1", "--json", "--input-only"});
  write_file_atomic(measured, input.out);
  const Result unknown = run(predict);
  CHECK(unknown.code == 3);
  CHECK(unknown.err.find("does not contain the parameters") != std::string::npos);
  const Result trained =
      run({"train", config, "--json", "--run-dir", work / "run", "--epochs", "1"});
  write_file_atomic(measured, trained.out);
  CHECK(run(predict).code == 0);
}

TEST_CASE("workers: the other names the last checkpoint when one is killed during an evaluation") {
  const Workspace work;
  const std::string config = build_config(work);
  // Nearly all time goes to evaluations.
  Two job(
      with(shared(config, work / "run"), {"--epochs", "1000", "--set", "run.evaluate_every=1 steps",
                                          "--set", "evaluate.batch_size=1"}));
  REQUIRE(job.chief.wait_for("\"event\":\"evaluation\"", 2));
  job.other.signal(SIGKILL);
  const auto results = job.wait();
  INFO(results[0].err);
  CHECK(results[0].code == 4);
  CHECK(results[0].err.find(", last checkpoint at step ") != std::string::npos);
}

TEST_CASE("workers: batch_norm sync has the loss of one process") {
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

TEST_CASE("workers: a step without samples of the chief has its loss with the penalty") {
  const Workspace work;
  const std::string config = work.config(R"(model:
  layers:
    - flatten
    - dense: {units: 10, kernel_regularizer: {l2: 1.0}}
data: {format: idx, limit: 33, path: )" + work.data() +
                                         R"(}
optimizer: {sgd: {learning_rate: 0.1}}
train: {epochs: 1, batch_size: 32}
parallel: {reduction: ordered, threads: 1}
run: {log_every: 1 steps}
)");
  const Result whole = run(alone(config, work / "whole"));
  const auto results = Two(shared(config, work / "run")).wait();
  INFO(whole.err, results[0].err, results[1].err);
  REQUIRE(results[0].code == 0);
  const Json expected = whole.event("step"), found = results[0].event("step");
  CHECK(expected.at("step") == 2);
  CHECK(found.at("step") == 2);
  CHECK(found.at("loss").get<double>() ==
        doctest::Approx(expected.at("loss").get<double>()).epsilon(1e-6));
}

TEST_CASE("workers: different settings are an error of every worker") {
  const Workspace work;
  const auto results =
      Two(shared(build_config(work), work / "run"), {"--set", "train.max_steps=3", "--seed", "8"})
          .wait();
  for (const Result& result : results) {
    INFO(result.err);
    CHECK(result.code == 2);
    CHECK(result.err.find("rank 1 (worker:1 on ") != std::string::npos);
    CHECK(result.err.find("'seed: 8', not 'seed: 7'") != std::string::npos);
  }
}

TEST_CASE("workers: missing or wrong settings are an error") {
  const Workspace work;
  const std::string config = build_config(work);
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

TEST_CASE("workers: an evaluator prints the metrics of the last checkpoint") {
  const Workspace work;
  const Arguments arguments =
      with(shared(build_config(work), work / "run"),
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

}  // namespace trainer::e2e::workers_test
