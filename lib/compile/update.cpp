#include <algorithm>
#include <map>
#include <stdexcept>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

ValueId add_slot(Graph& graph, const Value& parameter, const graph::Slot& slot) {
  const graph::Initial constant{graph::Initial::Kind::kConstant, slot.initial};
  return graph.add_value({parameter.name + "/" + slot.name, parameter.shape, DType::kFloat32,
                          Role::kSlot, parameter.loc, slot.copy ? parameter.initial : constant});
}

void add_update(Graph& graph, ValueId id, ValueId gradient, graph::Update update) {
  const Value parameter = graph[id];
  update.l2 = parameter.l2;
  update.l1 = parameter.l1;
  update.learning_rate_multiplier = parameter.learning_rate_multiplier;
  update.updates_before = static_cast<std::uint64_t>(parameter.updates_before);
  if (!parameter.decay) update.weight_decay = 0;
  std::vector<ValueId> inputs{id, gradient};
  for (const graph::Slot& slot : graph::list_slots(update)) {
    inputs.push_back(add_slot(graph, parameter, slot));
  }
  graph.add(update, inputs, layer_name(parameter.name), parameter.loc, Phase::kUpdate);
}

}  // namespace

Graph update(Graph graph, const Options& options) {
  for (Node& node : graph.nodes) {
    if (std::holds_alternative<graph::UpdateStatistics>(node.op)) node.phase = Phase::kUpdate;
  }
  std::map<std::string, ValueId> parameters;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.role == Role::kParameter && value.trainable) {
      parameters[value.name + "/gradient"] = static_cast<ValueId>(i);
    }
  }
  std::vector<ValueId> gradients;  // in the order in which backward produces them
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.outputs) {
      if (graph[id].role == Role::kGradient) gradients.push_back(id);
    }
  }
  for (const ValueId gradient : gradients) {
    const auto found = parameters.find(graph[gradient].name);
    if (found == parameters.end()) {
      throw std::logic_error(graph[gradient].name + ": no parameter to train has this gradient");
    }
    add_update(graph, found->second, gradient, options.update);
    parameters.erase(found);
  }
  if (!parameters.empty()) {
    throw std::logic_error(parameters.begin()->first + ": no gradient reaches this parameter");
  }
  std::ranges::stable_sort(graph.nodes, {}, &Node::phase);
  return graph;
}

}  // namespace trainer::compile
