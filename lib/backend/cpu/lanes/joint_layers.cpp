#include "backend/cpu/lanes/joint_layers.h"

#include <variant>
#include <vector>

#include "backend/placement.h"

namespace trainer::backend::cpu {
namespace {

// A smaller kernel and its gradient stay in the caches, so that waiting for the other lanes costs
// more than moving them.
constexpr std::int64_t kMinParameters = 1 << 18;

// A dense layer that could be joint.
struct Candidate {
  std::int64_t inputs = 0, units = 0;
  std::vector<std::string> parameters;  // the kernel first
  int forward = 0, gradients = 0;       // nodes that compute with its kernel
  bool fits = true;
};

using Candidates = std::map<std::string, Candidate>;  // by kernel

bool is_float(const graph::Graph& graph, graph::ValueId id) {
  return graph[id].type == DType::kFloat32;
}

// Returns the float32 dense layers of one row per sample that are computed once forward and once
// backward.
Candidates find_candidates(const graph::Graph& graph, const CpuVariables& variables) {
  Candidates all;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::Dense>(node.op)) continue;
    const graph::Value& kernel = graph[node.inputs[1]];
    Candidate& layer = all[kernel.name];
    ++layer.forward;
    layer.inputs = kernel.shape[0];
    layer.units = kernel.shape[1];
    layer.fits = layer.fits && is_float(graph, node.inputs[0]) &&
                 is_float(graph, node.outputs[0]) && graph[node.inputs[0]].shape.rank() == 2;
    layer.parameters.clear();
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      layer.parameters.push_back(graph[node.inputs[i]].name);
      layer.fits = layer.fits && variables.gradient_offset(layer.parameters.back()) >= 0;
    }
  }
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::DenseBackwardWeights>(node.op)) continue;
    const auto layer = all.find(parameter_name(graph[node.outputs[0]].name));
    if (layer == all.end()) continue;
    ++layer->second.gradients;
    const bool computes_all = node.outputs.size() == layer->second.parameters.size();
    if (!computes_all || !is_float(graph, node.inputs[1])) layer->second.fits = false;
  }
  std::erase_if(all, [](const auto& entry) {
    const Candidate& layer = entry.second;
    return !layer.fits || layer.forward != 1 || layer.gradients != 1;
  });
  return all;
}

// Separate lanes each move the kernel and its gradient; joint lanes move the activations of all
// samples instead, in and out.
bool pays(const Candidate& layer, int lanes, std::int64_t samples) {
  const std::int64_t parameters = layer.inputs * layer.units;
  return parameters >= kMinParameters &&
         (lanes - 1) * parameters > 2 * samples * (layer.inputs + layer.units);
}

}  // namespace

JointLayers::JointLayers(const graph::Graph& graph, const CpuVariables& variables, int lanes,
                         std::int64_t samples)
    : samples_(samples) {
  if (lanes < 2) return;
  const Candidates candidates = find_candidates(graph, variables);
  std::map<std::string, const Candidates::value_type*> layer_by_parameter;
  for (const auto& candidate : candidates) {
    for (const std::string& parameter : candidate.second.parameters) {
      layer_by_parameter[parameter] = &candidate;
    }
  }
  // Takes the layers of the longest range from the start whose last layer pays.
  const std::vector<Segment>& segments = variables.segments();
  std::vector<const Candidates::value_type*> range;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto found = layer_by_parameter.find(segments[i].parameter);
    if (found == layer_by_parameter.end()) break;
    if (range.empty() || range.back() != found->second) range.push_back(found->second);
    const bool ends = i + 1 == segments.size() ||
                      !layer_by_parameter.contains(segments[i + 1].parameter) ||
                      layer_by_parameter.at(segments[i + 1].parameter) != found->second;
    if (!ends || !pays(found->second->second, lanes, samples)) continue;
    taken = range.size();
    gradient_count_ = i + 1 < segments.size() ? segments[i + 1].offset : variables.flat_count();
  }
  for (std::size_t i = 0; i < taken; ++i) {
    JointLayer& layer = layers_[range[i]->first];
    layer.inputs = range[i]->second.inputs;
    layer.units = range[i]->second.units;
  }
}

JointLayer* JointLayers::find(std::string_view kernel) {
  const auto found = layers_.find(kernel);
  return found == layers_.end() ? nullptr : &found->second;
}

void JointLayers::allocate() {
  gradient_ = Memory(gradient_count_ * kFloatBytes);
  for (auto& [kernel, layer] : layers_) {
    const std::int64_t inputs = samples_ * layer.inputs * kFloatBytes;
    const std::int64_t units = samples_ * layer.units * kFloatBytes;
    layer.x = Memory(inputs);
    layer.dx = Memory(inputs);
    layer.y = Memory(units);
    layer.dy_of_data = Memory(units);
    layer.dy_of_weights = Memory(units);
  }
}

std::int64_t JointLayers::exchanged_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [kernel, layer] : layers_) {
    bytes += layer.x.bytes() + layer.y.bytes() + layer.dx.bytes() + layer.dy_of_data.bytes() +
             layer.dy_of_weights.bytes();
  }
  return bytes;
}

}  // namespace trainer::backend::cpu
