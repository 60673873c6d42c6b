#include "graph/rules.h"

#include <algorithm>
#include <stdexcept>

#include "graph/contexts.h"

namespace trainer::graph {

const char* name_of(const Op& op) {
  return std::visit([](const auto& each) { return each.kName; }, op);
}

std::string describe(const Op& op) {
  return std::visit([](const auto& each) { return each.text(); }, op);
}

void no_gradient(const GradientContext& context) {
  throw std::logic_error(
      concat(context.node.name, ": ", name_of(context.node.op), " has no gradient"));
}

std::vector<Typed> infer(const Op& op, const std::vector<Typed>& inputs, const std::string& name,
                         const SourceLoc& loc) {
  const ShapeContext context{inputs, name, loc};
  return std::visit([&](const auto& each) { return each.infer(context); }, op);
}

int aliased_input(const Op& op, int output) {
  return std::visit([&](const auto& each) { return each.alias(output); }, op);
}

std::int64_t flops(const Graph& graph, const Node& node) {
  const NodeShapes shapes{graph, node};
  return std::visit([&](const auto& op) { return op.flops(shapes); }, node.op);
}

std::vector<ValueId> differentiate(Graph& graph, int node,
                                   const std::vector<ValueId>& output_gradients,
                                   const std::vector<bool>& wanted) {
  const std::int64_t first_new = std::ssize(graph.values);
  GradientContext context{graph, node, graph.nodes[node], output_gradients, wanted};
  const Op op = context.node.op;
  // A loss makes the gradient of the logits itself.
  const bool flows = context.dy() != kNoValue || std::holds_alternative<Loss>(op);
  if (!flows || std::ranges::find(wanted, true) == wanted.end()) {
    return std::vector<ValueId>(wanted.size(), kNoValue);
  }
  std::vector<ValueId> gradients =
      std::visit([&](const auto& each) { return each.differentiate(context); }, op);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!wanted[i]) gradients[i] = kNoValue;
    const ValueId id = gradients[i];
    if (id < first_new) continue;  // or kNoValue
    const Value& x = graph[context.x(i)];
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
