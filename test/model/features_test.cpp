// The layer at which a model is cut for its features.
#include "model/features.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "support/model.h"

namespace trainer::model {
namespace {

graph::Graph small() {
  return test::build(
      "{layers: [{conv: {filters: 4, kernel_size: 3, name: first}}, batch_norm, flatten, "
      "{dense: {units: 5, name: hidden}}, dropout: 0.5, dense: 3]}",
      test::sample({6, 6, 1}, 3));
}

}  // namespace

TEST_CASE(
    "cut_at_features cuts at the last layer before the output that is not dropout by default") {
  const FeatureModel features = cut_at_features(small(), "");
  CHECK(features.layer == "hidden");
  CHECK(features.shape == Shape{kBatch, 5});
  CHECK(features.graph[features.graph.outputs[0]].shape == Shape{kBatch, 5});
  // Batch norm finds its moving statistics by their update.
  CHECK(
      std::count_if(features.graph.nodes.begin(), features.graph.nodes.end(), [](const auto& node) {
        return std::holds_alternative<graph::UpdateStatistics>(node.op);
      }) == 1);
  CHECK_NOTHROW(graph::verify(features.graph));
  CHECK(std::none_of(features.graph.layers.begin(), features.graph.layers.end(),
                     [](const graph::LayerInfo& layer) { return layer.kind == "Dropout"; }));
}

TEST_CASE("cut_at_features flattens a layer whose output is images to one row per sample") {
  const FeatureModel features = cut_at_features(small(), "first");
  CHECK(features.shape == Shape{kBatch, 4, 4, 4});
  CHECK(features.graph[features.graph.outputs[0]].shape == Shape{kBatch, 64});
  CHECK(features.graph.layers.size() == 2);  // with the input
  CHECK_NOTHROW(graph::verify(features.graph));
}

TEST_CASE("append_features puts the default features behind the logits, and flattens images") {
  const FeatureModel features = append_features(small());
  CHECK(features.layer == "hidden");
  CHECK(features.shape == Shape{kBatch, 5});
  CHECK(features.graph[features.graph.outputs[0]].shape == Shape{kBatch, 3 + 5});
  CHECK_NOTHROW(graph::verify(features.graph));
  const graph::Graph images = test::build(
      "{layers: [{conv: {filters: 2, kernel_size: 3}}, "
      "{conv: {filters: 3, kernel_size: 4}}, flatten]}",
      test::sample({6, 6, 1}, 3));
  const FeatureModel flat = append_features(images);
  CHECK(flat.shape == Shape{kBatch, 4, 4, 2});
  CHECK(flat.graph[flat.graph.outputs[0]].shape == Shape{kBatch, 3 + 32});
}

TEST_CASE("cut_at_features: the error of an unknown layer has a similar name or all names") {
  CHECK_THROWS_WITH_AS(cut_at_features(small(), "hiden"), doctest::Contains("'hidden'"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(cut_at_features(small(), "xyz"), doctest::Contains("layers: input, first, "),
                       ConfigError);
  const graph::Graph conv =
      test::build("{layers: [flatten, dense: 3]}", test::sample({6, 6, 1}, 3));
  CHECK(cut_at_features(conv, "").layer == "flatten");
}

}  // namespace trainer::model
