// Models of which weights are imported and exported.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/config.h"
#include "graph/graph.h"
#include "model/build_model.h"
#include "support/model.h"

namespace trainer::model {

inline const std::string kLayers = R"([
  {conv: {filters: 4, name: first_conv}}, {batch_norm: {name: first_bn}},
  {depthwise_conv: {depth_multiplier: 2, use_bias: false, name: deep}},
  {separable_conv: {filters: 5, kernel_size: 1, name: both}}, {relu: {max_value: 6, name: cut}},
  {global_average_pool: {name: pool}}, {dropout: {name: drop}}, {dense: {units: 3, name: last}}])";

struct Model {
  config::Config config;
  graph::Graph graph;
};
inline Model make_model(const std::string& weights, const std::string& layers = kLayers,
                        const std::string& more = "") {
  Model model;
  model.config =
      test::build_config("{layers: " + layers + ", weights: \"" + weights + "\"" + more + "}");
  model.graph = build_model(model.config.model, model.config.data, test::sample({8, 8, 3}, 3), 1);
  return model;
}

// Every parameter and statistic with numbers of its own.
inline std::vector<checkpoint::Tensor> counted(const graph::Graph& graph) {
  std::vector<checkpoint::Tensor> tensors;
  float number = 0;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    checkpoint::Tensor tensor{value.name, value.shape, {}};
    for (std::int64_t i = 0; i < value.shape.elements(); ++i) tensor.values.push_back(number += 1);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace trainer::model
