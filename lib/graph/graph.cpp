#include "graph/graph.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

namespace trainer::graph {
namespace {

// Walks over the nodes and checks the invariants of verify().
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  void run() {
    check_names();
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      defined_[i] = is_persistent(graph_.values[i].role);
    }
    for (const ValueId id : graph_.inputs) {
      check_id(id, "the graph's inputs");
      if (graph_[id].role != Role::kInput) fail("input '", graph_[id].name, "' has another role");
      defined_[id] = true;
    }
    Phase phase = Phase::kPrepare;
    for (const Node& node : graph_.nodes) {
      if (node.phase < phase) fail(node.name, ": phases are out of order");
      phase = node.phase;
      check_node(node);
    }
    for (const ValueId id : graph_.outputs) {
      check_id(id, "the graph's outputs");
      if (!defined_[id]) fail("output %", id, " is never computed");
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw std::logic_error(concat("graph: ", parts...));
  }

  void check_id(ValueId id, const std::string& where) const {
    if (id < 0 || id >= std::ssize(graph_.values)) {
      fail(where, " name a value %", id, " that does not exist");
    }
  }

  void check_names() const {
    std::set<std::string_view> names;
    for (const Value& value : graph_.values) {
      if (!is_persistent(value.role) && value.role != Role::kInput) continue;
      if (value.name.empty()) fail("a persistent value has no name");
      if (!names.insert(value.name).second) fail("two values are named '", value.name, "'");
    }
  }

  void check_node(const Node& node) {
    const std::string where = concat(node.name, " (", name_of(node.op), ")");
    for (const ValueId id : node.inputs) {
      check_id(id, where);
      if (!defined_[id]) {
        fail(where, ": input %", id, " '", graph_[id].name, "' is used before it is computed");
      }
    }
    std::vector<Typed> expected;
    try {
      expected = infer(node.op, list_types(graph_, node.inputs), node.name, node.loc);
    } catch (const ConfigError& error) {
      fail(where, ": ", error.what());
    }
    if (expected.size() != node.outputs.size()) {
      fail(where, ": has ", node.outputs.size(), " outputs, expected ", expected.size());
    }
    for (std::size_t i = 0; i < expected.size(); ++i)
      check_output(node.outputs[i], expected[i], where);
  }

  void check_output(ValueId id, const Typed& expected, const std::string& where) {
    check_id(id, where);
    const Value& value = graph_[id];
    if (defined_[id]) fail(where, ": computes %", id, " once more");
    defined_[id] = true;
    if (value.shape != expected.shape) {
      fail(where, ": %", id, " is ", to_string(value.shape), ", expected ",
           to_string(expected.shape));
    }
    // Kernels convert between the floating-point types of activations.
    const bool converts =
        value.role == Role::kActivation && is_float(value.type) && is_float(expected.type);
    if (value.type != expected.type && !converts) {
      fail(where, ": %", id, " is ", to_string(value.type), ", expected ",
           to_string(expected.type));
    }
  }

  const Graph& graph_;
  std::vector<bool> defined_;
};

}  // namespace

std::vector<Typed> list_types(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<Typed> types;
  for (const ValueId id : ids) types.push_back({graph[id].shape, graph[id].type});
  return types;
}

bool is_persistent(Role role) {
  return role == Role::kParameter || role == Role::kStatistic || role == Role::kSlot;
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<ValueId> Graph::add(Op op, std::vector<ValueId> node_inputs, const std::string& name,
                                const SourceLoc& loc, Phase phase) {
  const std::vector<Typed> types = infer(op, list_types(*this, node_inputs), name, loc);
  std::vector<ValueId> made;
  for (std::size_t i = 0; i < types.size(); ++i) {
    made.push_back(add_value({i == 0 ? name : concat(name, ":", i), types[i].shape, types[i].type,
                              Role::kActivation, loc}));
  }
  nodes.push_back({std::move(op), std::move(node_inputs), made, name, phase, loc});
  return made;
}

ValueId Graph::add1(Op op, std::vector<ValueId> node_inputs, const std::string& name,
                    const SourceLoc& loc, Phase phase) {
  const std::vector<ValueId> made = add(std::move(op), std::move(node_inputs), name, loc, phase);
  if (made.size() != 1) {
    throw std::logic_error(concat(name, ": expected one output, got ", made.size()));
  }
  return made[0];
}

ValueId Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    if (value.name == name && (is_persistent(value.role) || value.role == Role::kInput)) {
      return static_cast<ValueId>(i);
    }
  }
  return kNoValue;
}

int Graph::producer(ValueId id) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& made = nodes[i].outputs;
    if (std::ranges::find(made, id) != made.end()) return static_cast<int>(i);
  }
  return -1;
}

std::vector<int> Graph::consumers(ValueId id) const {
  std::vector<int> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& used = nodes[i].inputs;
    if (std::ranges::find(used, id) != used.end()) found.push_back(static_cast<int>(i));
  }
  return found;
}

bool is_output(const Graph& graph, ValueId id) {
  return std::ranges::find(graph.outputs, id) != graph.outputs.end();
}

std::optional<int> only_consumer(const Graph& graph, ValueId id) {
  if (is_output(graph, id)) return std::nullopt;
  const std::vector<int> consumers = graph.consumers(id);
  if (consumers.size() != 1) return std::nullopt;
  return consumers[0];
}

bool depends_on_inputs_only(const Graph& graph, ValueId id) {
  const int producer = graph.producer(id);
  if (producer < 0) return graph[id].role == Role::kInput;
  return std::ranges::all_of(graph.nodes[producer].inputs,
                             [&](ValueId x) { return depends_on_inputs_only(graph, x); });
}

void verify(const Graph& graph) { Verifier(graph).run(); }

}  // namespace trainer::graph
