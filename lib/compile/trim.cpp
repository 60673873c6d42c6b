#include <algorithm>
#include <optional>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

using Extent = std::array<std::int64_t, 2>;  // height, width

// Returns the rows and columns of its input, counted from the first, that a window reads to give
// `output`.
Extent extent_read(const graph::Window& w, const Extent& output) {
  Extent read{};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    read[axis] = (output[axis] - 1) * w.stride[axis] - w.pad_before[axis] +
                 (w.size[axis] - 1) * w.dilation[axis] + 1;
  }
  return read;
}

Extent to_extent(const Shape& shape) { return {shape[1], shape[2]}; }

const graph::Window* find_window(const Node& node) {
  if (const auto* conv = std::get_if<graph::Conv>(&node.op)) return &conv->window;
  if (const auto* pool = std::get_if<graph::Pool>(&node.op)) return &pool->window;
  return nullptr;
}

// Returns the part of a value that its only consumer reads, if that is a convolution or a pooling.
std::optional<Extent> extent_needed(const Graph& graph, ValueId id) {
  const std::optional<int> user = only_consumer(graph, id);
  if (!user) return std::nullopt;
  const Node& node = graph.nodes[*user];
  const graph::Window* window = find_window(node);
  if (window == nullptr || node.inputs[0] != id) return std::nullopt;
  Extent read = extent_read(*window, to_extent(graph[node.outputs[0]].shape));
  const Extent all = to_extent(graph[id].shape);
  for (std::size_t axis = 0; axis < 2; ++axis)
    read[axis] = std::clamp(read[axis], std::int64_t{1}, all[axis]);
  return read;
}

// Returns the padding after the input with which a window gives exactly `output`.
Extent padding_for(const graph::Window& window, const Extent& input, const Extent& output) {
  const Extent read = extent_read(window, output);
  return {read[0] - input[0], read[1] - input[1]};
}

void set_extent(Graph& graph, ValueId id, const Extent& extent) {
  graph[id].shape[1] = extent[0];
  graph[id].shape[2] = extent[1];
}

// Reduces a convolution's output to the extent that is needed, and its input with it. Does so only
// where the padding stays at least zero, as libraries require; ConvMaxPool takes a negative one.
void trim(Graph& graph, Node& node) {
  auto* const fused = std::get_if<graph::ConvMaxPool>(&node.op);
  auto* const conv = std::get_if<graph::Conv>(&node.op);
  if (fused == nullptr && conv == nullptr) return;
  const std::optional<Extent> needed = extent_needed(graph, node.outputs[0]);
  if (!needed || *needed == to_extent(graph[node.outputs[0]].shape)) return;
  if (fused != nullptr) {
    const Extent input = to_extent(graph[node.inputs[0]].shape);
    const Extent convolved = extent_read(fused->pool, *needed);
    fused->conv.window.pad_after = padding_for(fused->conv.window, input, convolved);
    set_extent(graph, node.outputs[1], *needed);
  } else {
    const Extent input = to_extent(graph[node.inputs[0]].shape);
    const Extent padding = padding_for(conv->window, input, *needed);
    const int maker = graph.producer(node.inputs[0]);
    // The producer of the input is visited later, and is then reduced to what is read here.
    const bool follows = maker >= 0 && only_consumer(graph, node.inputs[0]) &&
                         std::holds_alternative<graph::ConvMaxPool>(graph.nodes[maker].op);
    if ((padding[0] < 0 || padding[1] < 0) && !follows) return;
    conv->window.pad_after = {std::max<std::int64_t>(padding[0], 0),
                              std::max<std::int64_t>(padding[1], 0)};
  }
  set_extent(graph, node.outputs[0], *needed);
}

}  // namespace

// Visits the nodes from the last to the first, so that the extents that later nodes need are final.
Graph trim(Graph graph, const Options&) {
  for (std::size_t i = graph.nodes.size(); i-- > 0;) trim(graph, graph.nodes[i]);
  return graph;
}

}  // namespace trainer::compile
