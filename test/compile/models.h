// Small models for tests of passes, and the names of the ops that they compile to.
#pragma once

#include <string>
#include <utility>

#include "compile/compile.h"
#include "compile/ops.h"
#include "compile/passes.h"
#include "support/model.h"

namespace trainer::compile {

inline Options sgd() {
  Options options;
  options.update.rule = graph::SgdRule{};
  return options;
}

// These layers on images of two classes, with a dense layer behind them.
inline graph::Graph model(const std::string& layers, Shape image = {12, 12, 2}) {
  return test::build("{layers: [" + layers + ", flatten, dense: {units: 2}]}",
                     test::sample(std::move(image), 2));
}

inline std::string forward(const std::string& layers, const Options& options = sgd()) {
  return ops(training_graph(model(layers), options), graph::Phase::kForward);
}

inline std::string backward(const std::string& layers, const Options& options = sgd()) {
  return ops(training_graph(model(layers), options), graph::Phase::kBackward);
}

inline std::string evaluation(const std::string& layers) {
  return ops(evaluation_graph(model(layers), sgd()), graph::Phase::kForward);
}

inline void freeze_layer(graph::Graph& graph, const std::string& name) {
  for (graph::LayerInfo& layer : graph.layers) {
    if (layer.name == name) layer.trainable = false;
  }
}

}  // namespace trainer::compile
