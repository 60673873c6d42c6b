#include <algorithm>
#include <iterator>
#include <set>

#include "compile/passes.h"

namespace trainer::compile {
namespace {

// Returns for each value whether training changes it or it is random.
std::vector<bool> changing_values(const Graph& graph) {
  std::vector<bool> changing = depends_on_trainable(graph);
  for (const Node& node : graph.nodes) {
    const bool any = std::holds_alternative<graph::Dropout>(node.op) ||
                     std::holds_alternative<graph::BatchNorm>(node.op) ||
                     std::ranges::any_of(node.inputs, [&](ValueId id) { return changing[id]; });
    for (const ValueId id : node.outputs) changing[id] = any;
  }
  return changing;
}

ValueId find_labels(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (std::holds_alternative<graph::Loss>(node.op)) return node.inputs[1];
  }
  return kNoValue;
}

bool has_weights(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.inputs,
                             [&](ValueId id) { return graph[id].role == Role::kParameter; });
}

// The nodes before the cut, and their only value that the nodes after it read.
struct Cut {
  std::vector<bool> before;
  ValueId value = kNoValue;
};

// Returns the values, the images included, that come from before the cut and are read after it or
// by the caller.
std::set<ValueId> read_across(const Graph& graph, const std::vector<bool>& before) {
  std::set<ValueId> made(graph.inputs.begin(), graph.inputs.end());
  std::set<ValueId> read(graph.outputs.begin(), graph.outputs.end()), across;
  made.erase(find_labels(graph));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (before[i]) {
      made.insert(node.outputs.begin(), node.outputs.end());
    } else {
      read.insert(node.inputs.begin(), node.inputs.end());
    }
  }
  std::set_intersection(made.begin(), made.end(), read.begin(), read.end(),
                        std::inserter(across, across.end()));
  return across;
}

// Returns the latest place at which the rest of the graph needs a single value. Padding belongs to
// the convolution after it.
Cut find_cut(const Graph& graph, const std::vector<bool>& changing) {
  Cut best, now;
  now.before.assign(graph.nodes.size(), false);
  bool weights = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (std::ranges::any_of(node.outputs, [&](ValueId id) { return changing[id]; })) {
      break;  // A node that changes reads an activation, so that no later place is possible.
    }
    now.before[i] = true;
    weights = weights || has_weights(graph, node);
    if (!weights || std::holds_alternative<graph::ZeroPad>(node.op)) continue;
    const std::set<ValueId> across = read_across(graph, now.before);
    if (across.size() != 1 || *across.begin() != node.outputs[0]) continue;
    best = now;
    best.value = node.outputs[0];
  }
  return best;
}

Graph part(const Graph& graph, const std::vector<bool>& removed) {
  Graph part = graph;
  remove_nodes(part, removed);
  return part;
}

}  // namespace

FrozenSplit split_frozen(const Graph& model, const Options& options) {
  FrozenSplit split;
  const Graph graph = freeze(model, options);
  if (std::ranges::none_of(graph.values, [](const Value& value) {
        return value.role == Role::kParameter && value.trainable;
      })) {
    split.reason = "no layer is trained";
    return split;
  }
  const ValueId labels = find_labels(graph);
  const Cut cut = find_cut(graph, changing_values(graph));
  if (cut.value == kNoValue) {
    split.reason = "no layers at the start of the model are frozen";
    return split;
  }
  std::vector<bool> after = cut.before;
  after.flip();
  split.prefix = part(graph, after);
  std::erase(split.prefix.inputs, labels);
  split.prefix.outputs = {cut.value};
  split.suffix = part(graph, cut.before);
  for (ValueId& input : split.suffix.inputs) {
    if (input != labels) input = cut.value;
  }
  split.suffix[cut.value].role = Role::kInput;
  split.suffix[cut.value].type = options.activations;
  split.layer = graph.nodes[graph.producer(cut.value)].name;
  return split;
}

}  // namespace trainer::compile
