// Replicas as a user runs them.
#include <doctest/doctest.h>

#include "base/error.h"
#include "program.h"

namespace trainer::e2e {
namespace {

std::string plain_config(const Workspace& work) {
  return work.config(R"(model:
  layers:
    - conv: {filters: 4, activation: relu}
    - max_pool
    - dropout: 0.2
    - flatten
    - dense: 10
data: {format: idx, path: )" +
                     work.data() +
                     R"(}
optimizer: {adam: {learning_rate: 0.001}}
train: {max_steps: 24, batch_size: 32}
parallel: {reduction: ordered}
run: {checkpoint_every: 12 steps}
)");
}

Arguments with(const std::string& command, const std::string& config, const Arguments& more) {
  Arguments arguments{command, config, "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const Arguments kTwo{"--replicas", "2", "--batch-size", "16", "--set", "parallel.lr_scaling=none"};

std::string finished(const Arguments& arguments) {
  const Result result = run(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.event("finished").at("parameters_sha256");
}

}  // namespace

TEST_CASE("train --resume: another number of replicas equals an uninterrupted run bit by bit") {
  const Workspace work;
  const std::string config = plain_config(work);
  const std::string whole = finished(with("train", config, {"--run-dir", work / "whole"}));
  Arguments first =
      with("train", config, {"--run-dir", work / "parts", "--set", "train.max_steps=12"});
  finished(first);
  Arguments second = with("train", config, {"--run-dir", work / "parts", "--resume"});
  second.insert(second.end(), kTwo.begin(), kTwo.end());
  CHECK(finished(second) == whole);
  // Another global batch is another run.
  Arguments other = with("train", config,
                         {"--run-dir", work / "parts", "--resume", "--replicas", "2", "--set",
                          "parallel.lr_scaling=none"});
  const Result refused = run(other);
  CHECK(refused.code == 3);
  CHECK(refused.err.find("global batch was 32, is 64") != std::string::npos);
}

// 321 samples in batches of 30: the last one has 21, which no number of replicas here divides, and
// of 8 micro-batches most replicas have a number that is not a power of two.
TEST_CASE(
    "parallel.reduction: ordered gives the same bits with any number of replicas and 3 processes") {
  const Workspace work;
  const std::string config = plain_config(work);
  const Arguments common{"--set", "data.limit=321", "--set", "parallel.lr_scaling=none"};
  for (const char* accumulate : {"1", "2"}) {
    CAPTURE(accumulate);
    const auto train = [&](const Arguments& before, const char* name, const Arguments& more) {
      Arguments arguments = before;
      arguments.insert(arguments.end(), {"train", config, "--json", "--run-dir",
                                         work / concat(name, '-', accumulate), "--set",
                                         concat("optimizer.accumulate=", accumulate)});
      arguments.insert(arguments.end(), common.begin(), common.end());
      arguments.insert(arguments.end(), more.begin(), more.end());
      return arguments;
    };
    const std::string one = finished(train({}, "one", {"--batch-size", "30"}));
    CHECK(finished(train({}, "lanes", {"--batch-size", "30", "--set", "parallel.lanes=3"})) == one);
    for (const auto& [replicas, batch] : std::vector<std::pair<const char*, const char*>>{
             {"2", "15"}, {"3", "10"}, {"5", "6"}, {"6", "5"}}) {
      CAPTURE(replicas);
      CHECK(finished(train({}, replicas, {"--replicas", replicas, "--batch-size", batch})) == one);
    }
    const Arguments launch{"launch", "-n", "3", "--"};
    CHECK(finished(train(launch, "processes", {"--batch-size", "10"})) == one);
    CHECK(finished(train(launch, "both", {"--replicas", "2", "--batch-size", "5"})) == one);
  }
}

TEST_CASE("parallel.lr_scaling is required for several replicas, and plan prints the scaled rate") {
  const Workspace work;
  const std::string config = plain_config(work);
  const Result refused = run({"train", config, "--replicas", "2"});
  CHECK(refused.code == 2);
  CHECK(refused.err.find("parallel.lr_scaling: must be given with 2 replicas") !=
        std::string::npos);
  const Result plan =
      run({"plan", config, "--json", "--replicas", "2", "--set", "parallel.lr_scaling=linear"});
  REQUIRE(plan.code == 0);
  const Json json = plan.event("plan");
  CHECK(json.at("global_batch") == 64);
  CHECK(json.at("replicas") == 2);
  CHECK(json.at("lr_scaling").at("effective").get<double>() == doctest::Approx(0.002));
  CHECK(json.at("learning_rate").at("first").get<double>() == doctest::Approx(0.002));
}

TEST_CASE("ramp_up: several replicas need no lr_scaling") {
  const Workspace work;
  const std::string config = plain_config(work);
  const Arguments ramp_up{"--replicas", "2", "--set",
                          "schedule={ramp_up: {peak: 1.0e-4, scale: linear}}"};
  const Json plan = run(with("plan", config, ramp_up)).event("plan");
  CHECK_FALSE(plan.contains("lr_scaling"));
  CHECK(plan.at("learning_rate").at("first").get<double>() < 1e-4);
  Arguments text{"plan", config};
  text.insert(text.end(), ramp_up.begin(), ramp_up.end());
  CHECK(run(text).out.find("optimizer's learning rate") == std::string::npos);
  Arguments train{"train", config, "--run-dir", work / "run", "--set", "train.max_steps=1"};
  train.insert(train.end(), ramp_up.begin(), ramp_up.end());
  const Result trained = run(train);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(trained.out.find("2 replicas\n") != std::string::npos);
  CHECK(trained.out.find("total time with 2 replicas: ") != std::string::npos);
}

TEST_CASE("evaluate and predict: two replicas give the output of one") {
  const Workspace work;
  const std::string config = plain_config(work);
  for (const char* strategy : {"all_reduce", "parameter_server"}) {
    CAPTURE(strategy);
    const std::string dir = work / strategy;
    const Result trained =
        run({"train", config, "--run-dir", dir, "--set", "train.max_steps=2", "--set",
             "parallel.reduction=fast", "--set", concat("parallel.strategy=", strategy)});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    const Result one = run({"evaluate", dir}), two = run({"evaluate", dir, "--replicas", "2"});
    INFO(two.err);
    CHECK(two.code == 0);
    CHECK(two.out == one.out);
    const Result predicted = run({"predict", dir, "--limit", "5", "--replicas", "2"});
    INFO(predicted.err);
    CHECK(predicted.code == 0);
    CHECK(predicted.out == run({"predict", dir, "--limit", "5"}).out);
  }
}

TEST_CASE("verify: replicas and resume of a config have equal results") {
  const Workspace work;
  const std::string config = plain_config(work);
  for (const char* what : {"replicas", "resume"}) {
    const Result result = run({"verify", what, config, "--steps", "6", "--json"});
    INFO(what, ": ", result.err, result.out);
    CHECK(result.code == 0);
    CHECK(result.event("verified").at("holds") == true);
  }
}

}  // namespace trainer::e2e
