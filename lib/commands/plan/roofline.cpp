#include "commands/plan/roofline.h"

#include <algorithm>

#include "graph/traffic.h"

namespace trainer::commands {
namespace {

using graph::Node;
using graph::ValueId;

constexpr double kProductShare = 0.6;    // of a large product's rate, that convolutions reach
constexpr double kBandwidthShare = 0.9;  // that kernels reach
constexpr double kScalarShare = 0.6;     // of the float32 rate, outside matrix products
constexpr double kLaunch = 2e-6;         // seconds from one kernel of a CUDA graph to the next
constexpr double kFloat = sizeof(float);

template <class... Ops>
bool holds_any(const graph::Op& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

bool is_depthwise(const graph::Graph& graph, const Node& node) {
  if (const auto* conv = std::get_if<graph::Conv>(&node.op)) {
    return conv->groups > 1 && conv->groups == graph[node.inputs[0]].shape[3];
  }
  if (const auto* data = std::get_if<graph::ConvBackwardData>(&node.op)) {
    return data->groups > 1 && data->groups == data->input[3];
  }
  if (const auto* weights = std::get_if<graph::ConvBackwardWeights>(&node.op)) {
    return weights->groups > 1 && weights->groups == graph[node.inputs[0]].shape[3];
  }
  return false;
}

bool is_matrix_product(const graph::Graph& graph, const Node& node) {
  return holds_any<graph::Conv, graph::ConvBackwardData, graph::ConvBackwardWeights, graph::Dense,
                   graph::DenseBackwardData, graph::DenseBackwardWeights>(node.op) &&
         !is_depthwise(graph, node);
}

double product_rate(DType type, bool tf32, const backend::GpuModel& gpu) {
  const bool whole = type == DType::kFloat32;
  // Without tensor cores a large product comes close to the data sheet.
  if (whole && !tf32) return gpu.float_rate * kBandwidthShare;
  return (whole ? gpu.tf32_rate : gpu.half_rate) * gpu.large_product;
}

// The arithmetic and the memory traffic of some work.
struct NodeWork {
  double flops = 0, bytes = 0;
  bool product = false;  // of matrices
  DType type = DType::kFloat32;
  double kernels = 1;
};

// Adds the work to a layer: the longer of its arithmetic and its traffic, and at least its
// launches.
void add_time(Roofline::Layer& layer, bool backward, const NodeWork& work, bool tf32,
              const backend::GpuModel& gpu) {
  const double fastest =
      work.product ? product_rate(work.type, tf32, gpu) : gpu.float_rate * kScalarShare;
  const double memory = work.bytes / (gpu.bandwidth * kBandwidthShare);
  const double launches = work.kernels * kLaunch;
  const double fast = std::max({work.flops / fastest, memory, launches});
  const double slow =
      std::max({work.flops / (fastest * (work.product ? kProductShare : 1)), memory, launches});
  (backward ? layer.backward : layer.forward) += {fast, slow};
  layer.flops += work.flops;
  layer.bytes += work.bytes;
  if (memory >= fast) layer.memory_bound += fast;  // seconds, until the layer is whole
}

class RooflineEstimate {
 public:
  RooflineEstimate(const graph::Graph& graph, std::int64_t samples, bool tf32,
                   const backend::GpuModel& gpu)
      : graph_(graph), samples_(static_cast<double>(samples)), tf32_(tf32), gpu_(gpu) {}

  void add(const Node& node, Roofline::Layer& layer) const {
    const double flops = static_cast<double>(graph::flops(graph_, node)) * samples_;
    const DType type = node.inputs.empty() ? DType::kFloat32 : graph_[node.inputs[0]].type;
    add_time(layer, node.phase == graph::Phase::kBackward,
             {flops, traffic(node), is_matrix_product(graph_, node), type}, tf32_, gpu_);
  }

  // Returns the time of one kernel that moves every parameter, gradient and slot once and writes
  // the copies for the products anew.
  TimeRange update() const {
    double bytes = 0;
    for (const Node& node : graph_.nodes) {
      if (!std::holds_alternative<graph::Update>(node.op)) continue;
      const double elements = static_cast<double>(graph_[node.inputs[0]].shape.elements());
      const double written = static_cast<double>(node.inputs.size()) - 1;  // not the gradient
      bytes += elements * kFloat * (static_cast<double>(node.inputs.size()) + written);
      bytes += elements * (kFloat + 2);
    }
    if (bytes == 0) return {};
    const double seconds = std::max(bytes / (gpu_.bandwidth * kBandwidthShare), kLaunch);
    return {seconds, seconds};
  }

 private:
  double count_bytes(ValueId id) const { return graph::count_bytes(graph_, id, samples_); }

  // All operands once, and once more what a second pass of the CUDA backend's kernels reads.
  double traffic(const Node& node) const {
    double bytes = graph::traffic(graph_, node, samples_);
    if (holds_any<graph::BatchNorm>(node.op)) bytes += count_bytes(node.inputs[0]);
    if (holds_any<graph::BatchNormBackward>(node.op)) {
      bytes += count_bytes(node.inputs[0]) + count_bytes(node.inputs[1]);
      if (node.inputs.size() > 5) bytes += count_bytes(node.inputs[5]);
    }
    if (const auto* conv = std::get_if<graph::ConvBackwardWeights>(&node.op); conv && conv->bias) {
      bytes += count_bytes(node.inputs[1]);
    }
    return bytes;
  }

  const graph::Graph& graph_;
  double samples_;
  bool tf32_;
  const backend::GpuModel& gpu_;
};

Roofline::Layer& find_layer(Roofline& all, const std::string& name) {
  for (Roofline::Layer& layer : all.layers) {
    if (layer.name == name) return layer;
  }
  all.layers.push_back({});
  all.layers.back().name = name;
  return all.layers.back();
}

void add_graph(Roofline& all, const graph::Graph& graph, const RooflineEstimate& estimate) {
  for (const Node& node : graph.nodes) {
    if (node.phase != graph::Phase::kForward && node.phase != graph::Phase::kBackward) continue;
    if (std::holds_alternative<graph::Reshape>(node.op)) continue;
    estimate.add(node, find_layer(all, node.name));
  }
}

// Sums the times, and makes shares of what is memory-bound.
void sum_layers(Roofline& all) {
  for (Roofline::Layer& layer : all.layers) {
    const double fast = layer.forward.fast + layer.backward.fast;
    if (fast > 0) layer.memory_bound /= fast;
    all.step += layer.forward;
    all.step += layer.backward;
  }
  all.step += all.update;
}

}  // namespace

Roofline roofline(const graph::Graph& training, const graph::Graph* frozen, std::int64_t samples,
                  bool tf32, const backend::GpuModel& gpu) {
  Roofline all;
  all.gpu = gpu.gpu.name;
  all.samples = samples;
  if (frozen != nullptr) add_graph(all, *frozen, RooflineEstimate(*frozen, samples, tf32, gpu));
  const RooflineEstimate estimate(training, samples, tf32, gpu);
  add_graph(all, training, estimate);
  all.update = estimate.update();
  sum_layers(all);
  return all;
}

Roofline roofline(const std::vector<backend::InstructionInfo>& steps, std::int64_t samples,
                  bool tf32, const backend::GpuModel& gpu) {
  Roofline all;
  all.gpu = gpu.gpu.name;
  all.samples = samples;
  all.work.emplace();
  Roofline::Layer update;
  for (const backend::InstructionInfo& step : steps) {
    const backend::InstructionWork& work = step.work.value();
    const std::int64_t kernels = work.kernels + work.library_calls;
    const bool updates = step.phase == graph::Phase::kUpdate;
    Roofline::Layer& layer = updates ? update : find_layer(all, step.layer);
    add_time(layer, step.phase == graph::Phase::kBackward,
             {step.flops, work.bytes, work.library_calls > 0, step.type,
              static_cast<double>(kernels + work.copies)},
             tf32, gpu);
    layer.kernels += kernels;
    *all.work += work;
  }
  all.update = update.forward;
  sum_layers(all);
  return all;
}

}  // namespace trainer::commands
