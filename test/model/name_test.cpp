#include <doctest/doctest.h>

#include "support/model.h"

namespace trainer::model {
namespace {

std::string names(const graph::Graph& graph) {
  std::string joined;
  for (const graph::LayerInfo& layer : graph.layers) {
    if (!joined.empty()) joined += ' ';
    joined += layer.name;
  }
  return joined;
}

std::string persistent_values(const graph::Graph& graph) {
  std::string joined;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    if (!joined.empty()) joined += ' ';
    joined += concat(value.name, to_string(value.shape));
  }
  return joined;
}

}  // namespace

TEST_CASE("layer_names: layers without a name have the automatic names of Keras") {
  const auto graph = test::build(R"(
  layers:
    - zero_pad: {padding: 1}
    - conv: {filters: 4, kernel_size: 3}
    - conv: {filters: 4, kernel_size: 3}
    - depthwise_conv: {kernel_size: 3}
    - separable_conv: {filters: 4, kernel_size: 3}
    - max_pool: {pool_size: 2}
    - average_pool: {pool_size: 2}
    - batch_norm
    - activation: relu
    - dropout: 0.1
    - flatten
    - reshape: {target_shape: [1, 1, -1]}
    - global_average_pool
    - dense: {units: 3}
    - dense: {units: 10})",
                                 test::sample({28, 28, 1}, 10));
  CHECK(names(graph) ==
        "input zero_padding2d conv2d conv2d_1 depthwise_conv2d separable_conv2d max_pooling2d "
        "average_pooling2d batch_normalization activation dropout flatten reshape "
        "global_average_pooling2d dense dense_1");
}

TEST_CASE("layer_names: automatic names differ from given names") {
  const auto graph = test::build(R"(
  layers:
    - flatten: {name: dense_1}
    - dense: {units: 3}
    - dense: {units: 10})",
                                 test::sample({4, 4, 1}, 10));
  CHECK(names(graph) == "input dense_1 dense dense_2");
}

TEST_CASE("build_model uses the names and shapes of Keras's parameters") {
  const auto graph = test::build(R"(
  layers:
    - conv: {filters: 4, kernel_size: [3, 2], groups: 2}
    - depthwise_conv: {kernel_size: 3, depth_multiplier: 2, use_bias: false}
    - separable_conv: {filters: 5, kernel_size: 1}
    - batch_norm
    - flatten
    - dense: {units: 10})",
                                 test::sample({5, 4, 2}, 10));
  CHECK(
      persistent_values(graph) ==
      "conv2d/kernel[3, 2, 1, 4] conv2d/bias[4] "
      "depthwise_conv2d/depthwise_kernel[3, 3, 1, 8] "
      "separable_conv2d/depthwise_kernel[1, 1, 1, 8] separable_conv2d/pointwise_kernel[1, 1, 8, 5] "
      "separable_conv2d/bias[5] "
      "batch_normalization/gamma[5] batch_normalization/beta[5] "
      "batch_normalization/moving_mean[5] batch_normalization/moving_variance[5] "
      "dense/kernel[5, 10] dense/bias[10]");
}

}  // namespace trainer::model
