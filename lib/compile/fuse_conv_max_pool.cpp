#include <algorithm>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

const std::array<std::int64_t, 2> kOne{1, 1}, kTwo{2, 2}, kZero{0, 0};

bool fusable(const Graph& graph, const Node& node, const graph::Conv& conv,
             const Options& options) {
  const graph::Activation::Kind activation = conv.activation.kind;
  const std::array<std::int64_t, 2>& size = conv.window.size;
  return graph[node.inputs[0]].shape[3] <= options.capabilities.conv_max_pool_channels &&
         (size == std::array<std::int64_t, 2>{1, 1} || size == std::array<std::int64_t, 2>{3, 3} ||
          size == std::array<std::int64_t, 2>{5, 5}) &&
         conv.groups == 1 && conv.window.stride == kOne && conv.window.dilation == kOne &&
         (activation == graph::Activation::Kind::kLinear ||
          activation == graph::Activation::Kind::kRelu);
}

bool fusable(const graph::Pool& pool) {
  return pool.kind == graph::Pool::Kind::kMax && pool.window.size == kTwo &&
         pool.window.stride == kTwo && pool.window.pad_before == kZero &&
         pool.window.pad_after == kZero;
}

// Returns whether a value depends on the images alone and not on parameters. No gradient flows to
// such a value, neither here nor in the training form of the graph.
bool from_images(const Graph& graph, ValueId id) {
  const int producer = graph.producer(id);
  if (producer < 0) return graph[id].role == Role::kInput;
  const auto& inputs = graph.nodes[producer].inputs;
  return std::ranges::all_of(inputs, [&](ValueId x) { return from_images(graph, x); });
}

}  // namespace

Graph fuse_conv_max_pool(Graph graph, const Options& options) {
  if (!options.capabilities.fuse_conv_max_pool) return graph;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    const auto* conv = std::get_if<graph::Conv>(&node.op);
    if (conv == nullptr || !fusable(graph, node, *conv, options)) continue;
    if (!from_images(graph, node.inputs[0])) continue;
    const std::optional<int> next = only_consumer(graph, node.outputs[0]);
    if (!next) continue;
    const Node& pool_node = graph.nodes[*next];
    const auto* pool = std::get_if<graph::Pool>(&pool_node.op);
    if (pool == nullptr || !fusable(*pool)) continue;

    Value position;
    position.name = node.name + ":1";
    position.shape = graph[pool_node.outputs[0]].shape;
    position.type = DType::kUInt8;
    position.loc = node.loc;
    const ValueId pooled = pool_node.outputs[0];
    Node& fused = graph.nodes[i];
    fused.op = graph::ConvMaxPool{*conv, pool->window};
    fused.outputs = {pooled, graph.add_value(std::move(position))};
    removed[*next] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
