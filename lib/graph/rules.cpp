#include "graph/rules.h"

#include <stdexcept>
#include <utility>

namespace trainer::graph {
namespace rules {

void expect_inputs(const Site& site, std::size_t count) {
  if (site.inputs.size() != count) {
    throw std::logic_error(
        concat(site.name, ": has ", site.inputs.size(), " inputs, the op takes ", count));
  }
}

const Typed& floats(const Site& site, std::size_t i) {
  const Typed& x = site.inputs[i];
  if (!is_float(x.type)) fail(site, "expects floating-point input, got ", to_string(x.type));
  return x;
}

const Typed& image(const Site& site, std::size_t i) {
  const Typed& x = site.inputs[i];
  if (x.shape.rank() != 4 || !x.shape.batched()) {
    fail(site, "expects an image [batch, height, width, channels], but its input is ",
         to_string(x.shape), "; move it before the layer that flattens, or add a reshape");
  }
  if (!is_float(x.type)) fail(site, "expects floating-point input, got ", to_string(x.type));
  return x;
}

const Typed& rows(const Site& site, std::size_t i, const char* advice) {
  const Typed& x = site.inputs[i];
  if (x.shape.rank() != 2 || !x.shape.batched()) {
    fail(site, "expects [batch, features], but its input is ", to_string(x.shape), "; ", advice);
  }
  if (!is_float(x.type)) fail(site, "expects floating-point input, got ", to_string(x.type));
  return x;
}

void expect_shape(const Site& site, std::size_t i, const Shape& shape, const char* what) {
  if (site.inputs[i].shape == shape) return;
  fail(site, what, " is ", to_string(site.inputs[i].shape), ", expected ", to_string(shape));
}

Shape slide(const Site& site, const Window& window, const Shape& x, std::int64_t channels,
            bool may_cut) {
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (window.size[a] < 1 || window.stride[a] < 1 || window.dilation[a] < 1) {
      fail(site, "window size, strides and dilation rate must be 1 or more");
    }
    if (window.pad_before[a] < 0 || (window.pad_after[a] < 0 && !may_cut)) {
      fail(site, "padding must be 0 or more");
    }
  }
  const std::int64_t height = window.output(x[1], 0);
  const std::int64_t width = window.output(x[2], 1);
  if (height <= 0 || width <= 0) {
    const bool dilated = window.dilation[0] > 1 || window.dilation[1] > 1;
    const std::string dilation =
        dilated ? concat(" dilated by ", window.dilation[0], "x", window.dilation[1]) : "";
    fail(site, "window ", window.size[0], "x", window.size[1], dilation, " does not fit into ",
         x[1] + window.pad_before[0] + window.pad_after[0], "x",
         x[2] + window.pad_before[1] + window.pad_after[1], " (input ", to_string(x),
         "); use a smaller window, padding: same, or fewer strides and poolings before it");
  }
  return {kBatch, height, width, channels};
}

Shape slide_pool(const Site& site, const Window& window, const Shape& x) {
  const Shape y = slide(site, window, x, x[3]);
  for (std::size_t a = 0; a < 2; ++a) {
    if (window.pad_before[a] >= window.size[a] || window.pad_after[a] >= window.size[a]) {
      fail(site, "padding of ", window.pad_before[a], " and ", window.pad_after[a],
           " pixels leaves windows of ", window.size[a],
           " without a pixel of the image; pad by less than the pool size");
    }
  }
  return y;
}

std::vector<ValueId> GradientSite::emit(Op op, std::vector<ValueId> inputs) {
  return graph.add(std::move(op), std::move(inputs), node.name, node.loc, Phase::kBackward);
}

ValueId GradientSite::before_activation(const Activation& activation) {
  if (activation.linear()) return dy();
  if (!activation.differentiable_from_output()) {
    throw std::logic_error(concat(node.name, ": ", to_string(activation.kind),
                                  " was fused, but its derivative needs its input"));
  }
  return emit1(ActivateBackward{activation}, {y(), dy()});
}

void GradientSite::extend(Op op) {
  std::vector<Typed> inputs;
  for (const ValueId id : node.inputs) inputs.push_back({graph[id].shape, graph[id].type});
  const std::vector<Typed> outputs = graph::infer(op, inputs, node.name, node.loc);
  for (std::size_t i = node.outputs.size(); i < outputs.size(); ++i) {
    Value value;
    value.name = concat(node.name, ":", i);
    value.shape = outputs[i].shape;
    value.type = outputs[i].type;
    value.loc = node.loc;
    node.outputs.push_back(graph.add_value(std::move(value)));
  }
  Node& own = graph.nodes[static_cast<std::size_t>(index)];
  own.op = std::move(op);
  own.outputs = node.outputs;
}

Gradients no_gradient(const GradientSite& site) {
  throw std::logic_error(concat(site.node.name, ": ", name_of(site.node.op), " has no gradient"));
}

}  // namespace rules

std::vector<Typed> infer(const Op& op, const std::vector<Typed>& inputs, const std::string& name,
                         const SourceLoc& loc) {
  const rules::Site site{inputs, name, loc};
  return std::visit([&](const auto& each) { return rules::infer(each, site); }, op);
}

int alias_of(const Op& op, int output) {
  return std::visit([&](const auto& each) { return rules::alias(each, output); }, op);
}

std::int64_t flops(const Graph& graph, const Node& node) {
  const rules::Operands at{graph, node};
  return std::visit([&](const auto& op) { return rules::flops(op, at); }, node.op);
}

std::vector<ValueId> differentiate(Graph& graph, int node,
                                   const std::vector<ValueId>& output_gradients,
                                   const std::vector<bool>& wanted) {
  const std::size_t first_new = graph.values.size();
  rules::GradientSite site{graph, node, graph.nodes[static_cast<std::size_t>(node)],
                           output_gradients, wanted};
  const Op op = site.node.op;
  std::vector<ValueId> gradients =
      std::visit([&](const auto& each) { return rules::differentiate(each, site); }, op);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!wanted[i]) gradients[i] = kNoValue;
    const ValueId id = gradients[i];
    if (id == kNoValue || static_cast<std::size_t>(id) < first_new) continue;
    const Value& x = graph[site.x(i)];
    if (x.role == Role::kParameter) {
      graph[id].role = Role::kGradient;
      graph[id].name = x.name + "/gradient";
    } else {
      graph[id].type = x.type;  // a bf16 activation has a bf16 gradient even below float32 logits
    }
  }
  return gradients;
}

}  // namespace trainer::graph
