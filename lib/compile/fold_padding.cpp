#include <array>
#include <optional>
#include <variant>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

struct Padding {
  std::array<std::int64_t, 2> before, after;  // rows, columns
};

bool is_rectified(const Graph& graph, ValueId id) {
  // The gradient of an output is used without that of the ReLU.
  if (is_output(graph, id)) return false;
  const int producer = graph.producer(id);
  if (producer < 0) return false;
  const auto* activate = std::get_if<graph::Activate>(&graph.nodes[producer].op);
  return activate != nullptr && (activate->activation.kind == graph::Activation::Kind::kRelu ||
                                 activate->activation.kind == graph::Activation::Kind::kRelu6);
}

// Returns whether each window reads a pixel of the image.
bool reads_image(const graph::Window& window) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (window.dilation[axis] != 1 || window.pad_before[axis] >= window.size[axis] ||
        window.pad_after[axis] >= window.size[axis]) {
      return false;
    }
  }
  return true;
}

graph::Window enlarge(graph::Window window, const Padding& padding) {
  for (std::size_t axis = 0; axis < 2; ++axis) {
    window.pad_before[axis] += padding.before[axis];
    window.pad_after[axis] += padding.after[axis];
  }
  return window;
}

// Lets `reader` pad the value itself. Returns false if it would compute something else.
//
// The padding of a maximum is not zero but never wins. No value of a ReLU is below zero, so that
// the maximum is the same; where it is zero, another pixel may win, but the gradient of the ReLU is
// zero at both.
bool pad_in(const Graph& graph, Node& reader, ValueId padded, const Padding& padding) {
  if (auto* conv = std::get_if<graph::Conv>(&reader.op)) {
    conv->window = enlarge(conv->window, padding);
    return true;
  }
  auto* pool = std::get_if<graph::Pool>(&reader.op);
  if (pool == nullptr || pool->kind != graph::Pool::Kind::kMax) return false;
  const graph::Window window = enlarge(pool->window, padding);
  if (!is_rectified(graph, padded) || !reads_image(window)) return false;
  pool->window = window;
  return true;
}

}  // namespace

Graph fold_padding(Graph graph, const Options&) {
  std::vector<bool> removed(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto* pad = std::get_if<graph::ZeroPad>(&graph.nodes[i].op);
    if (pad == nullptr) continue;
    const std::optional<int> user = only_consumer(graph, graph.nodes[i].outputs[0]);
    if (!user) continue;
    const ValueId padded = graph.nodes[i].inputs[0];
    const Padding padding{{pad->top, pad->left}, {pad->bottom, pad->right}};
    Node& reader = graph.nodes[*user];
    if (!pad_in(graph, reader, padded, padding)) continue;
    reader.inputs[0] = padded;
    removed[i] = true;
  }
  remove_nodes(graph, removed);
  return graph;
}

}  // namespace trainer::compile
