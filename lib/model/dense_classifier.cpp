#include "model/dense_classifier.h"

#include <utility>

namespace trainer::model {

std::vector<config::Layer> dense_classifier_layers(const config::DenseClassifier& classifier,
                                                   std::int64_t logits) {
  std::vector<config::Layer> layers;
  const auto add = [&](config::LayerKind kind) {
    layers.push_back({std::move(kind), "", {}, classifier.loc});
  };
  add(config::FlattenLayer{});
  for (const std::int64_t units : classifier.hidden_units) {
    config::DenseLayer hidden;
    hidden.units = units;
    hidden.activation = classifier.activation;
    hidden.kernel_initializer = classifier.kernel_initializer;
    add(hidden);
    if (classifier.dropout > 0) add(config::DropoutLayer{classifier.dropout});
  }
  config::DenseLayer last;
  last.units = logits;
  last.kernel_initializer = classifier.kernel_initializer;
  add(last);
  return layers;
}

}  // namespace trainer::model
