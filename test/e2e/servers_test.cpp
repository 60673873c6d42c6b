// Jobs with parameter servers, as TF_CONFIG starts them: chief, workers, servers and an evaluator
// as processes of this host.
#include <doctest/doctest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <set>

#include "program.h"
#include "support/contains.h"

namespace trainer::e2e {
namespace {

// So long that no test sees the end of it unless it wants to.
const std::string kLong = "train: {max_steps: 1000000, batch_size: 32}\n";

std::string build_config(const Workspace& work, const std::string& more) {
  return work.config(kModel + ("data: {format: idx, path: " + work.data() + "}\n") + more);
}

const std::string kParallel =
    "parallel: {strategy: parameter_server, threads: 1, timeout: 20 seconds}\n";

class Job {
 public:
  Job(int servers, int workers) {
    cluster_["chief"] = {draw_address()};
    for (int i = 0; i < servers; ++i) cluster_["ps"].push_back(draw_address());
    for (int i = 0; i < workers; ++i) cluster_["worker"].push_back(draw_address());
  }

  Environment task(const std::string& type, int index) const {
    const Json config{{"cluster", cluster_}, {"task", {{"type", type}, {"index", index}}}};
    return {{"TF_CONFIG", config.dump()}};
  }
  std::string address(const std::string& type, std::size_t index) const {
    return cluster_.at(type).at(index);
  }

  Program& start(const std::string& type, int index, const Arguments& arguments) {
    std::unique_ptr<Program>& program = programs_[type + ":" + std::to_string(index)];
    program.reset();
    program = std::make_unique<Program>(arguments, task(type, index));
    return *program;
  }
  // Every task of the cluster, the chief when all workers have come. The servers print plain lines.
  void start_all(const Arguments& chief, Arguments others) {
    for (std::size_t i = 0; i < count("worker"); ++i) {
      start("worker", static_cast<int>(i), others);
    }
    std::erase(others, "--json");
    for (std::size_t i = 0; i < count("ps"); ++i) start("ps", static_cast<int>(i), others);
    for (std::size_t i = 0; i < count("ps"); ++i) {
      for (std::size_t w = 0; w < count("worker"); ++w) {
        Program& server = (*this)["ps:" + std::to_string(i)];
        REQUIRE(server.wait_for("worker:" + std::to_string(w) + " has come"));
      }
    }
    start("chief", 0, chief);
  }
  std::size_t count(const std::string& type) const {
    return cluster_.contains(type) ? cluster_.at(type).size() : 0;
  }
  Program& operator[](const std::string& name) { return *programs_.at(name); }

  // All must end with this code; what they printed, by name.
  std::map<std::string, Result> wait(int code, const std::set<std::string>& but = {}) {
    std::map<std::string, Result> results;
    for (const auto& [name, program] : programs_) {
      const Result result = results[name] = program->wait();
      if (but.contains(name)) continue;
      INFO(name, ": ", result.err);
      CHECK(result.code == code);
    }
    return results;
  }

 private:
  std::string draw_address() {
    int port = 0;
    do port = draw_port();
    while (!ports_.insert(port).second);
    return "127.0.0.1:" + std::to_string(port);
  }

  std::set<int> ports_;
  Json cluster_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

Arguments chief(const std::string& config, const Path& dir, const Arguments& more = {}) {
  Arguments arguments{"train", config, "--json", "--run-dir", dir};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

using test::contains;

void check_contains(const std::string& text, const std::vector<std::string>& parts) {
  INFO(text);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(contains(text, part));
  }
}

}  // namespace

TEST_CASE(
    "parameter servers: a chief and two servers equal one process bit by bit, also after a stop") {
  // A signal that is sent after the event of step 13 comes long before the last of 100 steps. An
  // evaluation would give the chief a full state that no checkpoint has.
  const Workspace work;
  const std::string config = work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer:
  {adam: {learning_rate: 0.002}, accumulate: 2, ema: 0.9, ema_warm_up: true, global_clip_norm: 0.5}
schedule: {cosine: {}, warm_up: {over: 5 steps}}
train: {epochs: 40, batch_size: 32}
parallel: {strategy: parameter_server, timeout: 20 seconds}
run:
  {checkpoint_every: 7 steps, evaluate_every: 40 epochs, log_every: 1 steps, summary_every: 1 steps}
)"));
  const Result whole = run(chief(config, work / "whole"));
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  const auto check = [&](Job& job) {
    const Result result = job.wait(0)["chief:0"];
    REQUIRE(result.code == 0);
    const Json now = result.event("finished"), expected = whole.event("finished");
    CHECK(now.at("parameters_sha256") == expected.at("parameters_sha256"));
    CHECK(now.at("metrics") == expected.at("metrics"));
    CHECK(now.at("steps") == expected.at("steps"));
    CHECK(now.at("staleness").at("max") == 0);
  };
  const Arguments others = chief(config, work / "others");
  SUBCASE("not stopped") {
    Job job(2, 0);
    job.start_all(chief(config, work / "run"), others);
    check(job);
  }
  const auto signal_at_13 = [&](Job& job, const std::string& name, int signal) {
    job.start_all(chief(config, work / "run"), others);
    REQUIRE(job["chief:0"].wait_for("\"step\":13,"));
    job[name].signal(signal);
  };
  const auto stop = [&](const std::string& name) {
    Job first(2, 0);
    signal_at_13(first, name, SIGTERM);
    CHECK(first.wait(75)["chief:0"].event("finished").at("reason") == "interrupted");
  };
  const auto check_resumed = [&] {
    Job second(2, 0);
    second.start_all(chief(config, work / "run", {"--resume"}), others);
    check(second);
  };
  SUBCASE("SIGTERM to the chief") {
    stop("chief:0");
    check_resumed();
  }
  SUBCASE("SIGTERM to a server") {
    stop("ps:1");
    check_resumed();
  }
  SUBCASE("a server is killed: the chief's averages and moments are not those of its step") {
    Job first(2, 0);
    signal_at_13(first, "ps:1", SIGKILL);
    check_contains(first.wait(4, {"ps:1"})["chief:0"].err,
                   {"has gone", "The job was at step ", "last checkpoint: ", "--resume"});
    check_resumed();
  }
  CHECK_FALSE(std::filesystem::exists(work / "others"));
}

TEST_CASE("parameter servers: an evaluator beside two workers reports the metrics of the chief") {
  const Workspace work;
  const std::string config =
      build_config(work, kParallel + R"(optimizer: {adam: {learning_rate: 0.003}}
train: {max_steps: 300, batch_size: 32}
run: {checkpoint_every: 50 steps, log_every: 1 steps}
evaluate: {start_delay_secs: 0, throttle_secs: 0, timeout_secs: 60}
)");
  Job job(1, 2);
  job.start_all(chief(config, work / "run"), chief(config, work / "run"));
  job.start("evaluator", 0, chief(config, work / "run"));
  auto results = job.wait(0);
  const Json finished = results["chief:0"].event("finished");
  REQUIRE(results["chief:0"].code == 0);
  CHECK(finished.at("steps") == 300);
  CHECK(finished.at("staleness").at("max") > 0);
  const Json metrics = finished.at("metrics").at("test");
  CHECK(metrics.at("accuracy") > 0.5);  // of ten classes; how stale updates are depends on the load
  CHECK(results["evaluator:0"].event("evaluation").at("loss") == metrics.at("loss"));
  const Result evaluated = run({"evaluate", work / "run", "--json"});
  CHECK(evaluated.lines().back().at("loss") == metrics.at("loss"));
}

TEST_CASE(
    "parameter servers: the job continues after a worker is killed, and a new one takes part") {
  const Workspace work;
  const std::string config = build_config(
      work, kParallel + kLong + "run: {log_every: 1 steps, checkpoint_every: 1 epochs}\n");
  const Arguments arguments = chief(config, work / "run");
  Job job(1, 1);
  job.start("ps", 0, {"train", config});
  job.start("chief", 0, arguments);
  Program& worker = job.start("worker", 0, arguments);
  Program& server = job["ps:0"];
  REQUIRE(server.wait_for("worker:0 has come"));
  REQUIRE(job["chief:0"].wait_for("\"event\":\"step\""));
  worker.signal(SIGKILL);
  REQUIRE(server.wait_for("worker:0 has gone after step "));
  job.start("worker", 0, arguments);
  REQUIRE(server.wait_for("worker:0 has come", 2));
  // The new one takes part: gradients of the chief meet parameters that it has changed.
  const auto told = job["chief:0"].output().size();
  const auto stale = [&] {
    const std::string text = job["chief:0"].output().substr(told);
    return contains(text, "\"staleness_max\":1,") || contains(text, "\"staleness_max\":2,");
  };
  for (int lines = 1; lines < 20'000 && !stale(); lines += 100) {
    job["chief:0"].wait_for("\"event\":\"step\"", lines);
  }
  CHECK(stale());
  job["chief:0"].signal(SIGTERM);
  job.wait(75);
}

TEST_CASE(
    "parameter servers: the job ends after a server is lost, and resumes from the checkpoint") {
  const Workspace work;
  const std::string config =
      build_config(work, kParallel + kLong +
                             "run: {log_every: 1 steps, checkpoint_every: 40 steps}\n"
                             "optimizer: {sgd: {learning_rate: 0.01, momentum: 0.9}}\n");
  int signal = SIGKILL;
  Arguments more;
  SUBCASE("killed") {}
  SUBCASE("silent") {
    signal = SIGSTOP;
    more = {"--set", "parallel.timeout=10 seconds"};
  }
  Job job(2, 1);
  job.start_all(chief(config, work / "run", more), chief(config, work / "run", more));
  REQUIRE(job["chief:0"].wait_for("\"event\":\"checkpoint\"", 2));
  REQUIRE(job["chief:0"].wait_for("\"event\":\"step\"", 53));
  job["ps:1"].signal(signal);
  std::vector<Result> results;
  for (const char* name : {"chief:0", "worker:0", "ps:0"}) results.push_back(job[name].wait());
  job["ps:1"].signal(SIGKILL);
  for (const Result& result : results) {
    INFO(result.err);
    CHECK(result.code == 4);
    check_contains(result.err, {"ps:1 at " + job.address("ps", 1), "has gone", "step ",
                                "checkpoint", "--resume"});
  }
  Job next(1, 0);  // as many servers as one likes
  next.start_all(chief(config, work / "run", {"--resume"}), chief(config, work / "run"));
  REQUIRE(next["chief:0"].wait_for("\"event\":\"step\""));
  next["chief:0"].signal(SIGTERM);
  const auto resumed = next.wait(75);
  CHECK(resumed.at("chief:0").event("start").at("first_step") >= 53);
}

TEST_CASE("parameter servers: the job ends when the chief is killed") {
  const Workspace work;
  const std::string config = build_config(work, kParallel + kLong + "run: {log_every: 1 steps}\n");
  const Arguments arguments = chief(config, work / "run");
  Job job(2, 1);
  job.start_all(arguments, arguments);
  REQUIRE(job["chief:0"].wait_for("\"event\":\"step\"", 13));
  job["chief:0"].signal(SIGKILL);
  for (const auto& [name, result] : job.wait(4, {"chief:0"})) {
    if (name == "chief:0") continue;
    check_contains(result.err, {"chief at " + job.address("chief", 0), "has gone after step "});
  }
}

TEST_CASE("parameter servers: wrong settings of tasks are an error") {
  const Workspace work;
  const std::string config = build_config(work, kParallel + kLong + "run: {log_every: 1 steps}\n");
  const Arguments arguments = chief(config, work / "run");
  SUBCASE("servers need their strategy") {
    Arguments reduce = arguments;
    reduce.insert(reduce.end(), {"--set", "parallel.strategy=all_reduce"});
    const Result result = run(reduce, Job(1, 1).task("chief", 0));
    CHECK(result.code == 2);
    check_contains(result.err, {"config.yaml:",
                                "parallel.strategy: the cluster of TF_CONFIG has ps "
                                "tasks",
                                "strategy: parameter_server"});
  }
  SUBCASE("the strategy needs servers") {
    const Result result = run(arguments, Job(0, 1).task("worker", 0));
    CHECK(result.code == 2);
    check_contains(result.err, {"config.yaml:", "parameter_server needs ps tasks"});
  }
  SUBCASE("nobody comes") {
    Arguments hurried = arguments;
    hurried.insert(hurried.end(), {"--set", "parallel.timeout=1 seconds"});
    Job one(2, 0), other(2, 0);
    one.start("chief", 0, hurried);
    other.start("ps", 1, hurried);
    check_contains(one.wait(4).at("chief:0").err,
                   {"ps:0 at " + one.address("ps", 0) + ", ps:1 at ", "within 1 s"});
    check_contains(other.wait(4).at("ps:1").err,
                   {"chief at " + other.address("chief", 0) + " has not come within 1 s"});
    CHECK_FALSE(std::filesystem::exists(work / "run"));
  }
  SUBCASE("a worker with another seed is turned away, and the job goes on") {
    Job job(1, 1);
    Program& server = job.start("ps", 0, {"train", config});
    job.start("chief", 0, arguments);
    Arguments other = arguments;
    other.insert(other.end(), {"--seed", "8"});
    const Result refused = job.start("worker", 0, other).wait();
    CHECK(refused.code == 2);
    check_contains(refused.err, {"worker:0 has 'seed: 8', not 'seed: 7' as ps:0"});
    job.start("worker", 0, arguments);
    REQUIRE(server.wait_for("worker:0 has come"));
    REQUIRE(job["chief:0"].wait_for("\"event\":\"step\"", 5));
    job["chief:0"].signal(SIGTERM);
    job.wait(75);
  }
  SUBCASE("two servers at one address") {
    Job job(1, 0);
    Program& first = job.start("ps", 0, {"train", config});
    REQUIRE(first.wait_for("listens at"));
    const Result second = run(arguments, job.task("ps", 0));
    CHECK(second.code == 2);
    check_contains(second.err, {"ps:0 cannot listen at " + job.address("ps", 0)});
  }
}

TEST_CASE("launch: --ps and --evaluator start servers and an evaluator") {
  const Workspace work;
  const std::string config =
      build_config(work, kParallel +
                             "train: {max_steps: 20, batch_size: 32}\n"
                             "evaluate: {start_delay_secs: 0, throttle_secs: 0}\n");
  const Result result = run({"launch", "-n", "2", "--ps", "2", "--evaluator", "--", "train", config,
                             "--run-dir", work / "run"});
  INFO(result.err);
  CHECK(result.code == 0);
  check_contains(result.out, {"2 workers, 2 parameter servers, asynchronous", "staleness of"});
  check_contains(result.err,
                 {"[ps:1] chief has come", "[evaluator:0] ", "the run has ended: done"});
}

TEST_CASE("plan: parameter servers have the steps and the traffic of the training") {
  const Workspace work;
  const std::string config = build_config(work, kParallel +
                                                    "train: {epochs: 1, batch_size: 32}\n"
                                                    "schedule: {exponential: {decay_rate: 0.5}}\n");
  Job job(1, 1);
  const Environment chief_of_two = job.task("chief", 0);
  const Json plan = run({"plan", config, "--json"}, chief_of_two).event("plan");
  CHECK(plan.at("global_batch") == 32);
  CHECK(plan.at("workers") == 2);
  CHECK(plan.at("reduced_bytes_per_step") == 0);
  const int trainable = plan.at("trainable_parameters"), all = plan.at("parameters");
  CHECK(all > trainable);  // batch norm's statistics
  CHECK(plan.at("pulled_bytes_per_step") == 4 * all);
  CHECK(plan.at("pushed_bytes_per_step") == 4 * (trainable + 2 * (all - trainable)));
  // The steps are those of training, and of one process without servers.
  const Json alone = run({"plan", config, "--json"}).event("plan");
  CHECK(plan.at("total_steps") == alone.at("total_steps"));
  CHECK(plan.at("learning_rate") == alone.at("learning_rate"));
  const Result trained = run({"launch", "-n", "2", "--ps", "1", "--", "train", config, "--json",
                              "--run-dir", work / "run"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.event("start").at("total_steps") == plan.at("total_steps"));
  CHECK(trained.event("start").at("global_batch") == plan.at("global_batch"));
  const std::string text = run({"plan", config}, chief_of_two).out;
  check_contains(text, {"workers and parameter servers", "pushed per step", "pulled per step"});
  const Result simulated = run({"plan", config, "--workers", "4", "--link", "1Gbit"});
  CHECK(simulated.code == 2);
  check_contains(simulated.err, {"config.yaml:", "--workers predicts all_reduce"});
}

TEST_CASE("parameter servers: no cluster means training in one process") {
  const Workspace work;
  const std::string config =
      build_config(work, kParallel + "train: {max_steps: 3, batch_size: 32}\n");
  const Result result = run({"train", config, "--run-dir", work / "run"});
  CHECK(result.code == 0);
  CHECK(contains(result.out, "no cluster: this process alone"));
}

}  // namespace trainer::e2e
