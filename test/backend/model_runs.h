// Models of a config, compiled and run on a backend and by the reference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/harness.h"
#include "support/model.h"

namespace trainer::test {

struct Net {
  std::string name;
  std::string model;  // YAML
  Shape image{8, 8, 3};
  std::int64_t classes = 4;
  bool index = true;  // labels are class indices
};

graph::Graph forward_graph(const Net& net);
// With plain gradient descent: at learning rate 1, parameters fall by their gradients.
graph::Graph training_graph(const Net& net, DType type = DType::kFloat32,
                            const graph::Update& update = {});

// Images and labels, different for each seed.
std::vector<std::vector<double>> batch(const graph::Graph& graph, std::int64_t samples,
                                       const Net& net, std::uint64_t seed = 1);
// Starting values of all kept values: initial ones, moved a little so that nothing is zero. Numbers
// that bfloat16 holds for a run in bfloat16, as a backend rounds the weights that it multiplies
// with.
std::map<std::string, std::vector<double>> starting_values(const graph::Graph& graph,
                                                           DType type = DType::kFloat32);

backend::Scalars gradient_scalars(std::int64_t samples);

// What the parameters lost in one run, all in one vector, by name.
std::vector<float> lost(const Runner& runner,
                        const std::map<std::string, std::vector<double>>& before,
                        const std::vector<std::string>& names);
std::vector<double> lost(const Reference& reference,
                         const std::map<std::string, std::vector<double>>& before,
                         const std::vector<std::string>& names);
std::vector<std::string> trained(const graph::Graph& graph);

void start(Runner& runner, const std::map<std::string, std::vector<double>>& values);

// Runs a training step for each number of samples, with a batch of its own, from these values on.
// Returns all outputs, and then all kept values.
std::vector<std::vector<float>> run_steps(backend::Backend& backend, const graph::Graph& graph,
                                          const Net& net,
                                          const std::map<std::string, std::vector<double>>& values,
                                          const std::vector<std::int64_t>& samples);

}  // namespace trainer::test
