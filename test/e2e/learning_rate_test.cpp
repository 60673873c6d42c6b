// The learning rate that reaches the parameters: multipliers, and rates at which they overflow.
#include <doctest/doctest.h>

#include "base/error.h"
#include "pictures.h"

namespace trainer::e2e {
namespace {

std::string read_sha(const Result& result) {
  INFO(result.err);
  REQUIRE(result.code == 0);
  return result.event("finished").at("parameters_sha256");
}

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

// Halves are exact in binary, so that half the rate by any way gives the same bits.
TEST_CASE(
    "learning_rate_multiplier: all layers train as with the multiplied learning rate bit by bit") {
  const Workspace work;
  const std::string config = work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {sgd: {learning_rate: 0.02}}
train: {max_steps: 5, batch_size: 32}
)"));
  const auto sha = [&](const std::string& dir, const std::string& setting) {
    return read_sha(run({"train", config, "--json", "--run-dir", work / dir, "--set", setting}));
  };
  const std::string half = sha("half", "optimizer.sgd.learning_rate=0.01");
  CHECK(sha("multiplied", "optimizer.learning_rate_multiplier=[{match: '*', value: 0.5}]") == half);
  CHECK(sha("some", "optimizer.learning_rate_multiplier=[{match: 'dense*', value: 0.5}]") != half);
  CHECK(sha("whole", "seed=7") != half);
}

TEST_CASE(
    "unfreeze: learning_rate_multiplier trains as with this rate bit by bit from the stage on") {
  const std::string stage = "freeze: all, unfreeze: {at: 1 epoch, freeze: '[:-20]'";
  const Pictures multiplied(stage + ", learning_rate_multiplier: 0.5}"), plain(stage + "}");
  const Arguments sgd{"--set", "optimizer={sgd: {learning_rate: 0.02}}"};
  const Arguments whole = with(sgd, {"--set", "train.epochs=2"});
  const std::string expected = read_sha(run(multiplied.train("run", "off", whole)));
  // Five steps per epoch: half the rate is given by hand when the stage begins.
  read_sha(run(plain.train("run", "off", with(sgd, {"--set", "train.epochs=1"}))));
  const Arguments second = with(whole, {"--resume", "--set", "optimizer.sgd.learning_rate=0.01"});
  CHECK(read_sha(run(plain.train("run", "off", second))) == expected);
  CHECK(read_sha(run(plain.train("other", "off", whole))) != expected);
}

// The loss of a step is that of the parameters before its update: after the last step nobody has
// seen those that it made.
TEST_CASE("train: parameters that are not finite write no checkpoint and end with exit code 5") {
  const Workspace work;
  const std::string config = work.config(kModel + ("data: {format: idx, path: " + work.data() + R"(}
optimizer: {sgd: {learning_rate: 3.0e+38}}
train: {max_steps: 1, batch_size: 32}
)"));
  const Result result = run(
      {"train", config, "--json", "--run-dir", work / "run", "--set", "data.normalize.scale=100"});
  CAPTURE(result.err);
  CHECK(result.code == 5);
  CHECK(
      result.err.find("the update is not finite at step 1 (epoch 1, learning rate 3e+38), although "
                      "the loss is finite: first seen in variable ") != std::string::npos);
  CHECK(result.err.find("Last good checkpoint: ") != std::string::npos);
  CHECK(result.out.find("\"event\":\"finished\"") == std::string::npos);
  CHECK_FALSE(std::filesystem::exists(work / "run" / "checkpoints" / "step-00000001.safetensors"));
}

}  // namespace trainer::e2e
