// float16 training under a loss scale, on backends that have float16.
#include <doctest/doctest.h>

#include <cmath>

#include "backend/model_runs.h"
#include "backend/nets.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test::loss_scale_test {
namespace {

using LossScale = backend::CompileOptions::LossScale;

constexpr std::int64_t kSamples = 12;

// Slots start at 0.
std::map<std::string, std::vector<double>> find_start(const graph::Graph& graph) {
  auto values = starting_values(graph);
  for (const graph::Value& value : graph.values) {
    if (value.role == graph::Role::kSlot) values[value.name].assign(values[value.name].size(), 0);
  }
  return values;
}

struct Training {
  graph::Graph graph;
  std::map<std::string, std::vector<double>> start_values = find_start(graph);
  Runner runner;

  explicit Training(const LossScale& scale, const graph::Update& update = {})
      : graph(training_graph(kPlain, DType::kFloat16, update)),
        runner(open({1, "cuda", DType::kFloat16}), graph, options(scale)) {
    start(runner, start_values);
  }
  // One step; returns whether its update was left out.
  bool step(std::uint64_t seed) {
    backend::Scalars scalars = gradient_scalars(kSamples);
    scalars.learning_rate = 0.01f;
    runner.run(kSamples, batch(graph, kSamples, kPlain, seed), scalars);
    CHECK(runner.result().finite);
    return runner.result().skipped;
  }
  std::vector<float> changes() const { return lost(runner, start_values, trained(graph)); }

 private:
  static backend::CompileOptions options(const LossScale& scale) {
    backend::CompileOptions options;
    options.max_samples = kSamples;
    options.loss_scale = scale;
    options.result_outputs.loss = 1;
    return options;
  }
};

}  // namespace

TEST_CASE("float16: a dynamic loss scale falls until no gradient overflows, and then trains") {
  if (!uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  // Far above float16's largest number: some updates must be left out.
  Training dynamic({16777216, true});
  int skipped = 0;
  while (skipped < 24 && dynamic.step(1)) {
    ++skipped;
    for (const float change : dynamic.changes()) REQUIRE(change == 0);
  }
  CHECK(skipped > 0);
  CHECK(skipped < 24);
  // The update is independent of the scale that its gradients had, but for float16's rounding.
  Training fixed({256, false});
  CHECK_FALSE(fixed.step(1));
  const std::vector<float> changes = dynamic.changes(), expected = fixed.changes();
  CHECK(distance(changes, {expected.begin(), expected.end()}) < 1e-2);
  CHECK_FALSE(dynamic.step(2));
}

TEST_CASE("float16: LAMB with an update that overflows changes no value, and it is not counted") {
  if (!uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  graph::Update update;
  update.rule = graph::LambRule{};
  Training dynamic({16777216, true}, update);
  int skipped = 0;
  while (skipped < 24 && dynamic.step(1)) {
    ++skipped;
    for (const graph::Value& value : dynamic.graph.values) {
      if (value.role != graph::Role::kSlot) continue;
      for (const float moment : dynamic.runner.read(value.name)) REQUIRE(moment == 0);
    }
    for (const float change : dynamic.changes()) REQUIRE(change == 0);
  }
  CHECK(skipped > 0);
  CHECK(skipped < 24);
  Training fixed({256, false}, update);
  CHECK_FALSE(fixed.step(1));
  const std::vector<float> changes = dynamic.changes(), expected = fixed.changes();
  CHECK(distance(changes, {expected.begin(), expected.end()}) < 1e-2);
}

TEST_CASE("float16: training continues with a loss scale set from another run") {
  if (!uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  constexpr float kStart = 4194304;
  Training whole({kStart, true}), first({kStart, true}), second({kStart, true});
  std::vector<bool> skipped;
  backend::LossScaleState kept;
  // Until some updates were left out and two were not.
  for (std::uint64_t seed = 1; kept.good_updates < 2; ++seed) {
    REQUIRE(seed <= 30);
    skipped.push_back(whole.step(seed));
    CHECK(first.step(seed) == skipped.back());
    kept = first.runner.loss_scale();
  }
  const std::uint64_t steps = skipped.size();
  CHECK(kept.value < kStart);
  CHECK(first.runner.loss_scale() == whole.runner.loss_scale());
  for (const graph::Value& value : whole.graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    const std::vector<float> values = first.runner.read(value.name);
    second.runner.write(value.name, values);
  }
  second.runner.set_loss_scale(kept);
  CHECK(second.runner.loss_scale() == kept);
  for (std::uint64_t seed = steps + 1; seed <= steps + 6; ++seed) {
    CHECK(second.step(seed) == whole.step(seed));
  }
  CHECK(second.changes() == whole.changes());
  CHECK(second.runner.loss_scale() == whole.runner.loss_scale());
}

TEST_CASE("float16: a fixed loss scale gives the update of float32 within rounding") {
  if (!uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  Training training({1024, false});
  CHECK_FALSE(training.step(3));
  const graph::Graph graph = training_graph(kPlain);
  Reference reference(graph);
  reference.kept = training.start_values;
  backend::Scalars scalars = gradient_scalars(kSamples);
  scalars.learning_rate = 0.01f;
  reference.run(kSamples, batch(graph, kSamples, kPlain, 3), scalars);
  const std::vector<double> expected = lost(reference, training.start_values, trained(graph));
  CHECK(distance(training.changes(), expected) < 2e-2);
}

TEST_CASE("float16: a gradient that is read has no loss scale") {
  if (!uses_gpus()) TRAINER_SKIP("only GPUs have float16");
  const auto compute_gradient = [](DType type, float loss_scale) {
    const graph::Graph graph = training_graph(kPlain, type);
    backend::CompileOptions options;
    options.max_samples = kSamples;
    options.loss_scale = {loss_scale, false};
    Runner runner(open({1, "cuda", type}), graph, options);
    start(runner, starting_values(graph));
    backend::Scalars scalars = gradient_scalars(kSamples);
    scalars.apply = false;
    runner.run(kSamples, batch(graph, kSamples, kPlain, 3), scalars);
    const auto values = runner.gradient().values;
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> expected = compute_gradient(DType::kFloat32, 1);
  CHECK(distance(compute_gradient(DType::kFloat16, 1024), {expected.begin(), expected.end()}) <
        2e-2);
}

}  // namespace trainer::test::loss_scale_test
