#include "graph/contexts.h"

#include <stdexcept>

namespace trainer::graph {

std::string words(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!part.empty()) joined += (joined.empty() ? "" : " ") + part;
  }
  return joined;
}

std::string flag(bool set, const char* name) { return set ? name : ""; }

void expect_inputs(const ShapeContext& context, std::size_t count) {
  if (context.inputs.size() != count) {
    throw std::logic_error(
        concat(context.name, ": has ", context.inputs.size(), " inputs, the op takes ", count));
  }
}

void expect_two_or_more(const ShapeContext& context) {
  if (context.inputs.size() < 2) {
    fail(context, "expects at least two inputs, got ", context.inputs.size(),
         "; name them with inputs: [first, second]");
  }
}

const Typed& floats(const ShapeContext& context, std::size_t i) {
  const Typed& x = context.inputs[i];
  if (!is_float(x.type)) fail(context, "expects floating-point input, got ", to_string(x.type));
  return x;
}

const Typed& image(const ShapeContext& context, std::size_t i) {
  const Typed& x = context.inputs[i];
  if (x.shape.rank() != 4 || !x.shape.batched()) {
    fail(context, "expects an image [batch, height, width, channels], but its input is ",
         to_string(x.shape), "; move it before the layer that flattens, or add a reshape");
  }
  return floats(context, i);
}

const Typed& rows(const ShapeContext& context, std::size_t i, const char* advice) {
  const Typed& x = context.inputs[i];
  if (x.shape.rank() != 2 || !x.shape.batched()) {
    fail(context, "expects [batch, features], but its input is ", to_string(x.shape), "; ", advice);
  }
  return floats(context, i);
}

void expect_shape(const ShapeContext& context, std::size_t i, const Shape& shape,
                  const char* what) {
  if (context.inputs[i].shape == shape) return;
  fail(context, what, " is ", to_string(context.inputs[i].shape), ", expected ", to_string(shape));
}

Shape channel_shape(const Shape& x) { return {x[x.rank() - 1]}; }

Shape slide(const ShapeContext& context, const Window& window, const Shape& x,
            std::int64_t channels, bool may_cut) {
  for (int axis = 0; axis < 2; ++axis) {
    if (window.size[axis] < 1 || window.stride[axis] < 1 || window.dilation[axis] < 1) {
      fail(context, "window size, strides and dilation rate must be 1 or more");
    }
    if (window.pad_before[axis] < 0 || (window.pad_after[axis] < 0 && !may_cut)) {
      fail(context, "padding must be 0 or more");
    }
  }
  const std::int64_t height = window.output(x[1], 0);
  const std::int64_t width = window.output(x[2], 1);
  if (height <= 0 || width <= 0) {
    const bool dilated = window.dilation[0] > 1 || window.dilation[1] > 1;
    const std::string dilation =
        dilated ? concat(" dilated by ", window.dilation[0], "x", window.dilation[1]) : "";
    fail(context, "window ", window.size[0], "x", window.size[1], dilation, " does not fit into ",
         x[1] + window.pad_before[0] + window.pad_after[0], "x",
         x[2] + window.pad_before[1] + window.pad_after[1], " (input ", to_string(x),
         "); use a smaller window, padding: same, or fewer strides and poolings before it");
  }
  return {kBatch, height, width, channels};
}

Shape slide_pool(const ShapeContext& context, const Window& window, const Shape& x) {
  const Shape y = slide(context, window, x, x[3], true);
  for (std::size_t a = 0; a < 2; ++a) {
    if (window.pad_before[a] >= window.size[a] || window.pad_after[a] >= window.size[a]) {
      fail(context, "padding of ", window.pad_before[a], " and ", window.pad_after[a],
           " pixels leaves windows of ", window.size[a],
           " without a pixel of the image; pad by less than the pool size");
    }
  }
  return y;
}

bool ends_with(const Shape& x, const Shape& part) {
  if (part.batched() || part.rank() >= x.rank()) return false;
  const std::size_t skip = x.rank() - part.rank();
  for (std::size_t i = 0; i < part.rank(); ++i) {
    if (x[skip + i] != part[i]) return false;
  }
  return true;
}

std::vector<ValueId> GradientContext::emit(Op op, std::vector<ValueId> inputs) {
  return graph.add(std::move(op), std::move(inputs), node.name, node.loc, Phase::kBackward);
}

ValueId GradientContext::before_activation(const Activation& activation) {
  if (activation.linear()) return dy();
  if (!activation.differentiable_from_output()) {
    throw std::logic_error(concat(node.name, ": ", activation.text(),
                                  " was fused, but its derivative needs its input"));
  }
  return emit1(ActivateBackward{activation}, {y(), dy()});
}

void GradientContext::extend(Op op) {
  const Outputs outputs = infer(op, list_types(graph, node.inputs), node.name, node.loc);
  for (std::size_t i = node.outputs.size(); i < outputs.size(); ++i) {
    const auto& [shape, type] = outputs[i];
    node.outputs.push_back(
        graph.add_value({concat(node.name, ":", i), shape, type, Role::kActivation, node.loc}));
  }
  Node& own = graph.nodes[index];
  own.op = std::move(op);
  own.outputs = node.outputs;
}

}  // namespace trainer::graph
