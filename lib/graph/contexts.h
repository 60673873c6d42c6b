// The arguments of an op's rules (graph/rules.h), and the checks that several rules share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace trainer::graph {

// ---- Texts ----

std::string words(const std::vector<std::string>& parts);  // the non-empty parts, joined by spaces
std::string flag(bool set, const char* name);              // the name or nothing

// ---- Shapes ----

// The inputs of a node, and its name and location for error messages.
struct ShapeContext {
  const std::vector<Typed>& inputs;
  const std::string& name;
  const SourceLoc& loc;
};

template <class... Parts>
[[noreturn]] void fail(const ShapeContext& context, const Parts&... parts) {
  throw ConfigError(context.loc, concat(context.name, ": ", parts...));
}

// Throws std::logic_error unless there are `count` inputs.
void expect_inputs(const ShapeContext& context, std::size_t count);
// Throws unless there are at least two inputs.
void expect_two_or_more(const ShapeContext& context);
// Input i, which must have a floating-point type.
const Typed& floats(const ShapeContext& context, std::size_t i);
// Input i, which must be [batch, height, width, channels] of a floating-point type.
const Typed& image(const ShapeContext& context, std::size_t i);
// Input i, which must be [batch, features] of a floating-point type. `advice` ends the message if
// it is not.
const Typed& rows(const ShapeContext& context, std::size_t i, const char* advice);
// Throws unless input i has this shape; `what` names the input.
void expect_shape(const ShapeContext& context, std::size_t i, const Shape& shape, const char* what);

// Returns [channels], where the channels are the last dimension of x.
Shape channel_shape(const Shape& x);

// Returns [batch, height, width, channels] after sliding `window` over the image `x`. Only with
// `may_cut` may the padding after the image be negative, which leaves the last pixels unread.
Shape slide(const ShapeContext& context, const Window& window, const Shape& x,
            std::int64_t channels, bool may_cut = false);
// Returns the shape after pooling, for which no window may lie in the padding alone. The padding
// after the image may be negative.
Shape slide_pool(const ShapeContext& context, const Window& window, const Shape& x);

// Returns true if `part` has no batch, fewer dimensions than x, and the last dimensions of x.
bool ends_with(const Shape& x, const Shape& part);

// ---- Gradients ----

// A node that is differentiated. `node` is a copy, since emitting nodes moves those of the graph.
struct GradientContext {
  Graph& graph;
  int index;  // the index of the node in the graph
  Node node;
  const std::vector<ValueId>& output_gradients;
  const std::vector<bool>& wanted;

  ValueId x(std::size_t i) const { return node.inputs[i]; }
  ValueId y(std::size_t i = 0) const { return node.outputs[i]; }
  ValueId dy(std::size_t i = 0) const { return output_gradients[i]; }
  bool wants(std::size_t i) const { return wanted[i]; }
  const Shape& shape_of(ValueId id) const { return graph[id].shape; }

  // Adds a backward node that belongs to the same layer, and returns its outputs.
  std::vector<ValueId> emit(Op op, std::vector<ValueId> inputs);
  // Calls emit() and returns the first output.
  ValueId emit1(Op op, std::vector<ValueId> inputs) {
    return emit(std::move(op), std::move(inputs))[0];
  }
  // The gradient before the activation that was fused into the node; dy if there is none.
  ValueId before_activation(const Activation& activation);
  // Replaces the op of the node by one with more outputs, and adds these outputs.
  void extend(Op op);
};

// ---- Work ----

// The shapes of a node's values.
struct NodeShapes {
  const Graph& graph;
  const Node& node;
  const Shape& input(std::size_t i) const { return graph[node.inputs[i]].shape; }
  const Shape& output(std::size_t i) const { return graph[node.outputs[i]].shape; }
};

}  // namespace trainer::graph
