#include <algorithm>
#include <ostream>
#include <string>

#include "graph/graph.h"

namespace trainer::graph {
namespace {

std::string initial_text(const Initial& initial) {
  constexpr const char* kNames[] = {"constant", "uniform", "normal", "truncated_normal"};
  const std::string text = concat(kNames[static_cast<int>(initial.kind)], " ", initial.a);
  return initial.kind == Initial::Kind::kConstant ? text : concat(text, " ", initial.b);
}

// Persistent values, inputs, gradients and derived values by name; the rest by number.
std::string reference(const Graph& graph, ValueId id) {
  const Value& value = graph[id];
  return value.role == Role::kActivation ? concat("%", id) : value.name;
}

void print_value(const Value& value, std::ostream& out) {
  out << "  " << value.name << " " << to_string(value.shape) << " " << to_string(value.type) << " "
      << spell(value.role);
  if (is_persistent(value.role)) out << " " << initial_text(value.initial);
  if (value.role == Role::kParameter) {
    if (!value.trainable) out << " frozen";
    if (value.l1 > 0) out << " l1 " << value.l1;
    if (value.l2 > 0) out << " l2 " << value.l2;
    if (value.learning_rate_multiplier != 1) out << " lr x" << value.learning_rate_multiplier;
    if (!value.decay) out << " no decay";
  }
  out << "\n";
}

void print_node(const Graph& graph, const Node& node, std::ostream& out) {
  out << "  ";
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    out << (i > 0 ? ", " : "") << reference(graph, id) << " " << to_string(graph[id].shape) << " "
        << to_string(graph[id].type);
  }
  const std::string attributes = describe(node.op);
  out << " = " << name_of(node.op) << (attributes.empty() ? "" : " {" + attributes + "}") << "(";
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    out << (i > 0 ? ", " : "") << reference(graph, node.inputs[i]);
  }
  out << ")  # " << node.name << "\n";
}

}  // namespace

void print(const Graph& graph, std::ostream& out) {
  out << "values:\n";
  for (const Value& value : graph.values) {
    if (is_persistent(value.role) || value.role == Role::kInput) print_value(value, out);
  }
  for (const Spelling<Phase>& phase : spellings(Phase{})) {
    const auto in_phase = [&](const Node& node) { return node.phase == phase.value; };
    if (std::ranges::none_of(graph.nodes, in_phase)) continue;
    out << phase.word << ":\n";
    for (const Node& node : graph.nodes) {
      if (in_phase(node)) print_node(graph, node, out);
    }
  }
  out << "outputs:";
  for (const ValueId id : graph.outputs) out << " " << reference(graph, id);
  out << "\n";
}

}  // namespace trainer::graph
