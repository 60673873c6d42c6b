#include "backend/model_runs.h"

#include <algorithm>

#include "compile/compile.h"
#include "model/initialise.h"

namespace trainer::test {

graph::Graph forward_graph(const Net& net) {
  model::SampleSpec spec = sample(net.image, net.classes);
  spec.label_is_index = net.index;
  return build(net.model, spec);
}

graph::Graph training_graph(const Net& net, DType type, const graph::Update& update) {
  compile::Options options;
  options.activations = type;
  options.update = update;
  return compile::training_graph(forward_graph(net), options);
}

std::vector<std::vector<double>> batch(const graph::Graph& graph, std::int64_t samples,
                                       const Net& net, std::uint64_t seed) {
  const Shape images = graph[graph.inputs[0]].shape.with_batch(samples);
  const Shape labels = graph[graph.inputs[1]].shape.with_batch(samples);
  // One logit has two classes.
  const double classes = static_cast<double>(std::max<std::int64_t>(net.classes, 2));
  return {content(images, {0, 256, true}, DType::kUInt8, 2 * seed),
          content(labels, net.index ? Fill{0, classes, true} : Fill{0, 1}, DType::kFloat32,
                  2 * seed + 1)};
}

std::map<std::string, std::vector<double>> starting_values(const graph::Graph& graph, DType type) {
  std::map<std::string, std::vector<double>> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (!graph::is_persistent(value.role)) continue;
    const std::vector<float> initial = model::initial_values(value, 3);
    std::vector<double> moved = content(value.shape, {-0.2, 0.2}, DType::kFloat32, i);
    for (std::size_t k = 0; k < moved.size(); ++k) {
      moved[k] = static_cast<double>(static_cast<float>(moved[k]) + initial[k]);
      if (type == DType::kBFloat16) moved[k] = to_bf16(moved[k]);
    }
    values[value.name] = moved;
  }
  return values;
}

backend::Scalars gradient_scalars(std::int64_t samples) {
  backend::Scalars scalars;
  scalars.learning_rate = 1;
  scalars.loss_scale = 1.0 / static_cast<double>(samples);
  return scalars;
}

std::vector<float> lost(const Runner& runner,
                        const std::map<std::string, std::vector<double>>& before,
                        const std::vector<std::string>& names) {
  std::vector<float> all;
  for (const std::string& name : names) {
    const std::vector<float> after = runner.read(name);
    const std::vector<double>& old = before.at(name);
    for (std::size_t i = 0; i < after.size(); ++i) {
      all.push_back(static_cast<float>(old[i] - static_cast<double>(after[i])));
    }
  }
  return all;
}

std::vector<double> lost(const Reference& reference,
                         const std::map<std::string, std::vector<double>>& before,
                         const std::vector<std::string>& names) {
  std::vector<double> all;
  for (const std::string& name : names) {
    const std::vector<double>& after = reference.kept.at(name);
    for (std::size_t i = 0; i < after.size(); ++i) all.push_back(before.at(name)[i] - after[i]);
  }
  return all;
}

std::vector<std::string> trained(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Value& value : graph.values) {
    if (value.role == graph::Role::kParameter && value.trainable) names.push_back(value.name);
  }
  return names;
}

void start(Runner& runner, const std::map<std::string, std::vector<double>>& values) {
  for (const auto& [name, numbers] : values) runner.write(name, numbers);
}

std::vector<std::vector<float>> run_steps(backend::Backend& backend, const graph::Graph& graph,
                                          const Net& net,
                                          const std::map<std::string, std::vector<double>>& values,
                                          const std::vector<std::int64_t>& samples) {
  backend::CompileOptions options;
  options.max_samples = std::ranges::max(samples);
  Runner runner(backend, graph, options);
  start(runner, values);
  std::vector<std::vector<float>> all;
  std::uint64_t update = 0;
  for (const std::int64_t count : samples) {
    backend::Scalars scalars = gradient_scalars(count);
    scalars.learning_rate = 0.01f;
    scalars.update = ++update;
    scalars.first_sample = 3;
    for (auto& output : runner.run(count, batch(graph, count, net, update), scalars)) {
      all.push_back(std::move(output));
    }
  }
  for (const graph::Value& value : graph.values) {
    if (graph::is_persistent(value.role)) all.push_back(runner.read(value.name));
  }
  return all;
}

}  // namespace trainer::test
