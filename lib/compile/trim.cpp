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

// Returns the window of a convolution or a pooling; null for other nodes.
graph::Window* find_window(Node& node) {
  if (auto* conv = std::get_if<graph::Conv>(&node.op)) return &conv->window;
  if (auto* pool = std::get_if<graph::Pool>(&node.op)) return &pool->window;
  return nullptr;
}

// Returns the part of a value that its only consumer reads, if that is a convolution or a pooling.
std::optional<Extent> extent_needed(Graph& graph, ValueId id) {
  const std::optional<int> user = only_consumer(graph, id);
  if (!user) return std::nullopt;
  Node& node = graph.nodes[*user];
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

// Reduces the output of a convolution, or of the pooling of the first one, to the extent that is
// needed. A pooling's padding after the input may become negative. That of a convolution stays at
// least zero, as libraries require.
void trim(Graph& graph, int index) {
  Node& node = graph.nodes[index];
  graph::Window* const window = find_window(node);
  const bool is_pool = std::holds_alternative<graph::Pool>(node.op);
  if (window == nullptr || (is_pool && !is_pool_of_first_convolution(graph, index))) return;
  const ValueId x = node.inputs[0], y = node.outputs[0];
  const std::optional<Extent> needed = extent_needed(graph, y);
  if (!needed || *needed == to_extent(graph[y].shape)) return;
  Extent padding = padding_for(*window, to_extent(graph[x].shape), *needed);
  if (!is_pool && (padding[0] < 0 || padding[1] < 0)) {
    // A pooling that makes the input is visited later, and is then reduced to what is read here.
    if (!only_consumer(graph, x) || !is_pool_of_first_convolution(graph, graph.producer(x))) return;
    for (std::int64_t& pixels : padding) pixels = std::max<std::int64_t>(pixels, 0);
  }
  window->pad_after = padding;
  set_extent(graph, y, *needed);
  // The reader of y, which exists because `needed` does, leaves nothing of the new extent unread.
  graph::Window* const reader = find_window(graph.nodes[*only_consumer(graph, y)]);
  for (std::int64_t& pixels : reader->pad_after) pixels = std::max<std::int64_t>(pixels, 0);
}

}  // namespace

// Visits the nodes from the last to the first, so that the extents that later nodes need are final.
Graph trim(Graph graph, const Options&) {
  for (int i = static_cast<int>(graph.nodes.size()); i-- > 0;) trim(graph, i);
  return graph;
}

}  // namespace trainer::compile
