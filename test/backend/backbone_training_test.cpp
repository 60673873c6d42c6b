// Backbones of products, normalised pixels and dropped paths train on GPUs as on the CPU.
#include <doctest/doctest.h>

#include <cmath>

#include "backend/model_runs.h"
#include "compile/compile.h"
#include "model/initialise.h"
#include "support/backend.h"
#include "support/skip.h"

namespace trainer::test {
namespace {

constexpr std::int64_t kSamples = 4;
constexpr std::uint64_t kSteps = 2;

// Batch norm with moving statistics: those of so few samples magnify every rounding.
Net build_net(const std::string& backbone) {
  return {backbone,
          "{backbone: {name: " + backbone +
              ", batch_norm: eval}, head: [global_average_pool, dropout: 0.2, dense: 4]}",
          {32, 32, 3}};
}

struct Trained {
  std::vector<std::vector<float>> losses;  // of each step
  std::vector<float> moved;                // what the parameters lost
};

// A few steps on one batch after another, from the model's own starting values.
Trained train(const Net& net, const Setup& setup) {
  compile::Options options;
  options.activations = setup.type;
  options.update.rule = graph::SgdRule{};
  const graph::Graph graph = compile::training_graph(forward_graph(net), options);
  std::map<std::string, std::vector<double>> values;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    const std::vector<float> initial = model::initial_values(value, 3);
    values[value.name].assign(initial.begin(), initial.end());
  }
  backend::CompileOptions compiled;
  compiled.max_samples = kSamples;
  Runner runner(open(setup), graph, compiled);
  start(runner, values);
  Trained result;
  for (std::uint64_t step = 1; step <= kSteps; ++step) {
    backend::Scalars scalars = gradient_scalars(kSamples);
    scalars.learning_rate = 0.01f;
    scalars.update = step;
    scalars.first_sample = 4 * step;
    auto outputs = runner.run(kSamples, batch(graph, kSamples, net, step), scalars);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (is_float(graph[graph.outputs[i]].type)) result.losses.push_back(std::move(outputs[i]));
    }
  }
  result.moved = lost(runner, values, trained(graph));
  return result;
}

double measure_distance(const std::vector<float>& a, const std::vector<float>& b) {
  return distance(a, std::vector<double>(b.begin(), b.end()));
}

void compare(const Net& net, const Setup& setup, double tolerance) {
  static std::map<std::string, Trained> of_cpu;
  Trained& want = of_cpu[net.name];
  if (want.losses.empty()) want = train(net, {1, "x86-64-v3", DType::kFloat32});
  const Trained got = train(net, setup);
  REQUIRE(got.losses.size() == want.losses.size());
  double losses = 0;
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    losses = std::max(losses, measure_distance(got.losses[i], want.losses[i]));
  }
  const double moved = measure_distance(got.moved, want.moved);
  MESSAGE(net.name, ", ", to_string(setup), ": losses ", losses, ", updates ", moved,
          " from the CPU's");
  CHECK_MESSAGE(losses < tolerance, net.name, ", ", to_string(setup));
  CHECK_MESSAGE(moved < 5 * tolerance, net.name, ", ", to_string(setup));
}

}  // namespace

TEST_CASE("backbone: training on GPUs gives the results of the CPU") {
  if (!uses_gpus()) TRAINER_SKIP("compares GPUs with the CPU");
  for (const std::string name : {"efficientnet_b0", "mobilenet_v3_small", "convnext_tiny"}) {
    for (const Setup& setup : setups()) {
      const bool exact = setup.type == DType::kFloat32;
      if (exact || name == "mobilenet_v3_small")
        compare(build_net(name), setup, exact ? 1e-4 : 3e-2);
    }
  }
}

}  // namespace trainer::test
