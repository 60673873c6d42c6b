#include <algorithm>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

// Returns which input is a bias that a node adds to each channel after all else; -1 if none is.
int find_bias(const Graph& graph, const Node& node) {
  if (const auto* conv = std::get_if<graph::Conv>(&node.op)) {
    return conv->bias && conv->activation.linear() ? 2 : -1;
  }
  if (const auto* dense = std::get_if<graph::Dense>(&node.op)) {
    return dense->bias && dense->activation.linear() ? 2 : -1;
  }
  const bool adds = std::holds_alternative<graph::AddBias>(node.op);
  return adds && graph[node.inputs[1]].shape.rank() == 1 ? 1 : -1;
}

// Returns for each node the input that is a bias whose gradient is zero, or -1: batch norm over the
// batch subtracts the mean of each channel, and with it a bias that only batch norm reads. Summed
// over the batch, the gradient would be what rounding leaves of zero, which Adam scales up to steps
// of the learning rate.
std::vector<int> find_biases_without_effect(const Graph& graph) {
  std::vector<int> biases;
  for (const Node& node : graph.nodes) {
    int bias = find_bias(graph, node);
    const std::optional<int> reader =
        bias < 0 ? std::nullopt : only_consumer(graph, node.outputs[0]);
    if (!reader || !std::holds_alternative<graph::BatchNorm>(graph.nodes[*reader].op)) bias = -1;
    biases.push_back(bias);
  }
  return biases;
}

// Walks backwards from the loss or the logits, and collects the gradients of each value.
class Walk {
 public:
  // `wanted` has an entry per value, true if the gradient of the value is needed.
  Walk(Graph graph, std::vector<bool> wanted)
      : graph_(std::move(graph)),
        wanted_(std::move(wanted)),
        biases_without_effect_(find_biases_without_effect(graph_)),
        parts_(graph_.values.size()) {}

  // Adds the gradients of the loss with respect to the parameters.
  Graph differentiate_loss() && {
    visit_all();
    // Parameters have no producer to visit, so that the gradients of several uses are summed here.
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (graph_.values[i].role == Role::kParameter) {
        sum_gradients(static_cast<ValueId>(i), graph_.values[i].name, graph_.values[i].loc);
      }
    }
    return std::move(graph_);
  }

  // Adds the gradient of a weighted sum of the logits with respect to output 1.
  Graph differentiate_logits() && {
    const ValueId logits = graph_.outputs[0], activation = graph_.outputs[1];
    const Value like = graph_[logits];
    graph_.inputs.push_back(
        graph_.add_value({"logit_weights", like.shape, like.type, Role::kInput, like.loc}));
    parts_[logits].push_back(graph_.inputs.back());
    visit_all();
    const Value layer_output = graph_[activation];
    const ValueId gradient = sum_gradients(activation, layer_output.name, layer_output.loc);
    if (gradient == kNoValue) {
      throw ConfigError(layer_output.loc, "the logits do not depend on the output of this layer");
    }
    graph_.outputs.push_back(gradient);
    return std::move(graph_);
  }

 private:
  void visit_all() {
    for (int i = static_cast<int>(graph_.nodes.size()) - 1; i >= 0; --i) visit(i);
  }

  void visit(int i) {
    const Node node = graph_.nodes[i];
    std::vector<bool> wanted;
    for (const ValueId id : node.inputs) wanted.push_back(wanted_[id]);
    if (std::ranges::find(wanted, true) == wanted.end()) return;

    std::vector<ValueId> gradients;
    for (const ValueId id : node.outputs)
      gradients.push_back(sum_gradients(id, node.name, node.loc));
    const bool flows = std::ranges::any_of(gradients, [](ValueId id) { return id != kNoValue; });
    if (!flows && !std::holds_alternative<graph::Loss>(node.op)) return;

    const int bias = biases_without_effect_[i];
    const bool wants_zero = bias >= 0 && wanted[bias];
    if (wants_zero) wanted[bias] = false;
    const std::vector<ValueId> made = graph::differentiate(graph_, i, gradients, wanted);
    for (std::size_t k = 0; k < made.size(); ++k) {
      if (made[k] != kNoValue) parts_[node.inputs[k]].push_back(made[k]);
    }
    if (wants_zero) {
      parts_[node.inputs[bias]].push_back(add_zero_gradient(node.inputs[bias], node));
    }
  }

  ValueId add_zero_gradient(ValueId parameter, const Node& node) {
    const ValueId zero = graph_.add1(graph::ZeroGradient{graph_[parameter].shape}, {}, node.name,
                                     node.loc, Phase::kBackward);
    graph_[zero].role = Role::kGradient;
    graph_[zero].name = graph_[parameter].name + "/gradient";
    return zero;
  }

  // Returns the sum of the gradients of a value, or kNoValue if it has none.
  ValueId sum_gradients(ValueId id, const std::string& name, const SourceLoc& loc) {
    const std::vector<ValueId>& parts = parts_[id];
    if (parts.empty()) return kNoValue;
    if (parts.size() == 1) return parts[0];
    const ValueId sum = graph_.add1(graph::Add{}, parts, name, loc, Phase::kBackward);
    if (graph_[id].role == Role::kParameter) {
      for (const ValueId part : parts) graph_[part].role = Role::kActivation;
      graph_[sum].role = Role::kGradient;
      graph_[sum].name = graph_[id].name + "/gradient";
    }
    return sum;
  }

  Graph graph_;
  std::vector<bool> wanted_;                 // by value of the forward graph
  std::vector<int> biases_without_effect_;   // by node of the forward graph
  std::vector<std::vector<ValueId>> parts_;  // by value of the forward graph
};

}  // namespace

std::set<std::string> parameters_without_gradient(const Graph& training_graph) {
  std::set<ValueId> zeros;
  std::set<std::string> names;
  for (const Node& node : training_graph.nodes) {
    if (std::holds_alternative<graph::ZeroGradient>(node.op)) zeros.insert(node.outputs[0]);
    if (!std::holds_alternative<graph::Update>(node.op)) continue;
    if (zeros.contains(node.inputs[1])) names.insert(training_graph[node.inputs[0]].name);
  }
  return names;
}

Graph differentiate(Graph graph, const Options&) {
  std::vector<bool> wanted = depends_on_trainable(graph);
  return Walk(std::move(graph), std::move(wanted)).differentiate_loss();
}

Graph differentiate_logits(Graph graph, const Options&) {
  std::vector<bool> wanted = depends_on(graph, graph.outputs[1]);
  return Walk(std::move(graph), std::move(wanted)).differentiate_logits();
}

}  // namespace trainer::compile
