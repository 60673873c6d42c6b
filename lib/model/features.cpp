#include "model/features.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "model/names.h"

namespace trainer::model {
namespace {

using graph::Graph;
using graph::LayerInfo;
using graph::ValueId;

const LayerInfo* layer_that_makes(const Graph& model, ValueId value) {
  for (const LayerInfo& layer : model.layers) {
    if (layer.output == value) return &layer;
  }
  return nullptr;
}

// Returns the layer of the first input of `layer`; null for the images.
const LayerInfo* layer_before(const Graph& model, const LayerInfo& layer) {
  for (const graph::Node& node : model.nodes) {
    if (node.name != layer.name || node.inputs.empty()) continue;
    return layer_that_makes(model, node.inputs[0]);
  }
  return nullptr;
}

const LayerInfo& last_before_head(const Graph& model) {
  const auto head = std::find_if(model.layers.rbegin(), model.layers.rend(),
                                 [](const LayerInfo& layer) { return !layer.parameters.empty(); });
  const LayerInfo* features = head == model.layers.rend() ? nullptr : layer_before(model, *head);
  // Dropout changes nothing outside of training.
  while (features != nullptr && features->kind == "Dropout") {
    features = layer_before(model, *features);
  }
  if (features == nullptr) {
    throw ConfigError({},
                      "--features: the model has no layer before its last one with weights; "
                      "name a layer with --layer");
  }
  return *features;
}

const LayerInfo& layer_named(const Graph& model, const std::string& option,
                             const std::string& name) {
  std::vector<std::string> names;
  for (const LayerInfo& layer : model.layers) {
    if (layer.name == name) return layer;
    names.push_back(layer.name);
  }
  throw ConfigError({}, concat(option, ": there is no layer '", name, "'",
                               suggest_layers(name, std::move(names))));
}

bool contains_any(const std::set<ValueId>& set, const std::vector<ValueId>& ids) {
  return std::ranges::any_of(ids, [&](ValueId id) { return set.contains(id); });
}

// Returns `last` and all values that it depends on.
std::set<ValueId> find_needed_values(const Graph& graph, ValueId last) {
  std::set<ValueId> needed{last};
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const graph::Node& node = graph.nodes[i];
    if (contains_any(needed, node.outputs)) needed.insert(node.inputs.begin(), node.inputs.end());
  }
  return needed;
}

// Removes nodes that `last` does not depend on. Keeps UpdateStatistics of the batch norms that
// stay, because it reads their moving statistics.
void remove_unneeded_nodes(Graph& graph, ValueId last) {
  const std::set<ValueId> needed = find_needed_values(graph, last);
  std::set<ValueId> made;
  std::erase_if(graph.nodes, [&](const graph::Node& node) {
    const bool updates = std::holds_alternative<graph::UpdateStatistics>(node.op);
    const bool stays = contains_any(needed, node.outputs);
    if (!stays && !(updates && contains_any(made, node.inputs))) return true;
    made.insert(node.outputs.begin(), node.outputs.end());
    return false;
  });
}

// Returns whether a value has the shape [batch, height, width, channels] with several positions.
bool has_positions(const Shape& shape) { return shape.rank() == 4 && shape[1] * shape[2] > 1; }

// Returns the index of the last node with attention that makes one of these values; -1 if there is
// none.
int find_last_attention(const Graph& model, const std::set<ValueId>& needed) {
  for (int i = static_cast<int>(model.nodes.size()); i-- > 0;) {
    const graph::Node& node = model.nodes[i];
    if (std::holds_alternative<graph::Attention>(node.op) && needed.contains(node.outputs[0]))
      return i;
  }
  return -1;
}

// Returns for each value whether it depends on a parameter.
std::vector<bool> depends_on_parameters(const Graph& model) {
  std::vector<bool> depends(model.values.size(), false);
  for (std::size_t i = 0; i < depends.size(); ++i) {
    depends[i] = model.values[i].role == graph::Role::kParameter;
  }
  for (const graph::Node& node : model.nodes) {
    const bool any = std::ranges::any_of(node.inputs, [&](ValueId id) { return depends[id]; });
    for (const ValueId id : node.outputs) depends[id] = any;
  }
  return depends;
}

// Returns the output of the layer as a row per sample.
ValueId add_rows(Graph& graph, const LayerInfo& layer) {
  const Shape shape = graph[layer.output].shape;
  if (shape.rank() == 2) return layer.output;
  const graph::Reshape flat{Shape{kBatch, shape.elements()}};
  return graph.add1(flat, {layer.output}, "features", layer.loc);
}

}  // namespace

FeatureModel cut_at_features(const Graph& model, const std::string& layer) {
  const LayerInfo& cut =
      layer.empty() ? last_before_head(model) : layer_named(model, "--layer", layer);
  FeatureModel features{model, cut.name, model[cut.output].shape};
  Graph& graph = features.graph;
  remove_unneeded_nodes(graph, cut.output);
  std::erase_if(graph.layers, [&](const LayerInfo& one) { return graph.producer(one.output) < 0; });
  // No parameter is frozen, so that the model is not split into a prefix and a rest.
  for (LayerInfo& one : graph.layers) one.trainable = true;
  for (graph::Value& value : graph.values) {
    value.trainable = value.trainable || value.role == graph::Role::kParameter;
  }
  const ValueId rows = add_rows(graph, cut);
  // A loss ends every model; this one is never computed.
  const ValueId labels = graph.inputs[1];
  graph[labels].type = DType::kInt32;
  graph[labels].shape = Shape{kBatch};
  graph.outputs = {rows, graph.add1(graph::Loss{}, {rows, labels}, "loss", cut.loc)};
  return features;
}

FeatureModel append_features(const Graph& model) {
  const LayerInfo& layer = last_before_head(model);
  FeatureModel features{model, layer.name, model[layer.output].shape};
  Graph& graph = features.graph;
  const ValueId rows = add_rows(graph, layer);
  graph.outputs[0] = graph.add1(graph::Concat{}, {graph.outputs[0], rows}, "features", layer.loc);
  return features;
}

std::optional<TokenGrid> find_token_grid(const Graph& graph, ValueId tokens) {
  const Shape& shape = graph[tokens].shape;
  if (shape.rank() != 3 || !shape.batched()) return {};
  for (int i = graph.producer(tokens); i >= 0; i = graph.producer(graph.nodes[i].inputs[0])) {
    const graph::Node& node = graph.nodes[i];
    const Shape& input = graph[node.inputs[0]].shape;
    const auto* crop = std::get_if<graph::Crop>(&node.op);
    if (crop != nullptr && crop->bottom > 0) return {};
    if (input.rank() == 3) continue;
    const bool is_image =
        std::holds_alternative<graph::Reshape>(node.op) && input.rank() == 4 &&
        graph[node.outputs[0]].shape == Shape{kBatch, input[1] * input[2], input[3]};
    const std::int64_t before = is_image ? shape[1] - input[1] * input[2] : -1;
    if (before < 0) return {};
    return TokenGrid{input[1], input[2], before};
  }
  return {};
}

const LayerInfo& find_feature_map(const Graph& model, const std::string& layer) {
  if (!layer.empty()) {
    const LayerInfo& named = layer_named(model, "--heatmap-layer", layer);
    const Shape& shape = model[named.output].shape;
    if (has_positions(shape) || find_token_grid(model, named.output)) return named;
    throw ConfigError(
        {}, concat("--heatmap-layer ", layer, ": the output of this layer is ", to_string(shape),
                   ", expected [batch, height, width, channels] with more than one "
                   "position, or tokens of patches; name an earlier layer"));
  }
  const std::vector<bool> depends = depends_on_parameters(model);
  const std::set<ValueId> needed = find_needed_values(model, model.outputs[0]);
  const int attention = find_last_attention(model, needed);
  // The logits depend on the tokens after the last attention through the class token alone. What
  // makes the queries is not the place to look at.
  const auto has_read_tokens = [&](const LayerInfo& one) {
    return model.producer(one.output) < attention && one.kind != "Dense" &&
           one.kind != "Concatenate" && find_token_grid(model, one.output);
  };
  const auto found =
      std::find_if(model.layers.rbegin(), model.layers.rend(), [&](const LayerInfo& one) {
        return needed.contains(one.output) && depends[one.output] &&
               (has_positions(model[one.output].shape) || has_read_tokens(one));
      });
  if (found == model.layers.rend()) {
    throw ConfigError({},
                      "no layer of the model gives images of more than one position, so that "
                      "there is no heatmap of its features; use --heatmap-method occlusion");
  }
  return *found;
}

}  // namespace trainer::model
