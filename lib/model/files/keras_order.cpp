#include "model/files/keras_order.h"

#include <algorithm>
#include <map>
#include <string>

namespace trainer::model {
namespace {

constexpr std::size_t kUnseen = -1;

// Returns for each layer the layers that it reads, in the order of its inputs.
std::vector<std::vector<std::size_t>> inputs_of_layers(
    const std::vector<graph::LayerInfo>& layers) {
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < layers.size(); ++i) place[layers[i].name] = i;
  std::vector<std::vector<std::size_t>> inputs(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::string& name : layers[i].inputs) inputs[i].push_back(place.at(name));
  }
  return inputs;
}

// Returns for each layer the length of the longest path to the output. The list must have a layer
// after its inputs.
std::vector<std::size_t> compute_depths(const std::vector<std::vector<std::size_t>>& inputs) {
  std::vector<std::size_t> depth(inputs.size());
  for (std::size_t i = inputs.size(); i-- > 0;) {
    for (const std::size_t input : inputs[i]) depth[input] = std::max(depth[input], depth[i] + 1);
  }
  return depth;
}

// Returns for each layer its position in a depth-first search from the last layer, which visits the
// first input first.
std::vector<std::size_t> traverse(const std::vector<std::vector<std::size_t>>& inputs) {
  std::vector<std::size_t> met(inputs.size(), kUnseen);
  std::size_t count = 0;
  std::vector<std::size_t> open{inputs.size() - 1};
  while (!open.empty()) {
    const std::size_t layer = open.back();
    open.pop_back();
    if (met[layer] != kUnseen) continue;
    met[layer] = count++;
    open.insert(open.end(), inputs[layer].rbegin(), inputs[layer].rend());
  }
  return met;
}

}  // namespace

std::vector<const graph::LayerInfo*> keras_order(const graph::Graph& graph) {
  if (graph.layers.empty()) return {};
  const auto inputs = inputs_of_layers(graph.layers);
  const std::vector<std::size_t> depth = compute_depths(inputs), met = traverse(inputs);
  std::vector<std::size_t> order(graph.layers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return depth[a] != depth[b] ? depth[a] > depth[b] : met[a] < met[b];
  });
  std::vector<const graph::LayerInfo*> layers;
  for (const std::size_t i : order) layers.push_back(&graph.layers[i]);
  return layers;
}

}  // namespace trainer::model
