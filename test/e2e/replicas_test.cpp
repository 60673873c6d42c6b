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

TEST_CASE("a run resumed with another number of replicas ends as one that never changed") {
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

TEST_CASE("several replicas ask how to scale the learning rate, and a plan says what comes of it") {
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

TEST_CASE("verify proves what replicas and resuming promise") {
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
