// Maps of class activations beside derivatives of logits by differences.
#include "engine/class_activation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/numbers/random.h"
#include "engine/engine.h"
#include "model/features.h"
#include "support/backend.h"
#include "support/contains.h"
#include "support/model.h"

namespace trainer::engine {
namespace {

constexpr std::int64_t kMapClasses = 3;

// A model in two parts: the layers up to the one whose positions the map shows, and the rest.
struct SplitModel {
  std::string first, rest, loss = "softmax_cross_entropy";
  std::int64_t classes = kMapClasses;
  Shape image = {9, 8, 3};

  std::string text(const std::string& layers) const {
    return "{loss: " + loss + ", layers: [" + layers + "]}";
  }
};

model::SampleSpec float_sample(const SplitModel& model, Shape image) {
  model::SampleSpec spec = test::sample(std::move(image), model.classes);
  spec.image_type = DType::kFloat32;
  return spec;
}

config::Config map_config(const std::string& model) {
  config::Config config =
      test::build_config(model, "data: {format: synthetic, normalize: {scale: 1}}\n");
  config.train.batch_size = 64;
  return config;
}

std::unique_ptr<Engine> predictor(const graph::Graph& model, const config::Config& config) {
  return std::make_unique<Engine>(
      model, config, test::open_test_backends(device_options(config.parallel, {})), Use::kPredict);
}

std::vector<float> draw_numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed, Stream::kSynthetic);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.below(2000)) / 1000 - 1;
  return values;
}

// All variables with numbers of their own; variances are positive.
std::vector<checkpoint::Tensor> draw_tensors(const Engine& engine) {
  std::vector<checkpoint::Tensor> tensors = engine.replica().tensors();
  std::uint64_t seed = 1;
  for (checkpoint::Tensor& tensor : tensors) {
    tensor.values = draw_numbers(tensor.values.size(), seed++);
    const bool variance = tensor.name.ends_with("variance");
    for (float& value : tensor.values) value = variance ? 1 + std::abs(value) : value / 2;
  }
  return tensors;
}

std::vector<float> evaluate_one(Engine& engine, const std::vector<float>& image) {
  engine.evaluate({1, image.data(), false, nullptr});
  return {engine.logits().begin(), engine.logits().begin() + engine.replica().outputs()};
}

// The map by its definition. The mean over positions of the gradient with respect to a channel is
// the derivative of the logit in the direction of all positions of the channel, divided by their
// number.
std::vector<double> map_by_differences(const std::vector<float>& features, const Shape& shape,
                                       Engine& rest, std::size_t logit, double sign) {
  const auto channels = static_cast<std::size_t>(shape[3]);
  const std::size_t positions = features.size() / channels;
  constexpr float kStep = 1.0f / 128;
  std::vector<double> map(positions);
  for (std::size_t c = 0; c < channels; ++c) {
    std::vector<float> up = features, down = features;
    for (std::size_t p = 0; p < positions; ++p) {
      up[p * channels + c] += kStep;
      down[p * channels + c] -= kStep;
    }
    const double difference = static_cast<double>(evaluate_one(rest, up)[logit]) -
                              static_cast<double>(evaluate_one(rest, down)[logit]);
    const double weight = sign * difference / (2 * kStep) / static_cast<double>(positions);
    for (std::size_t p = 0; p < positions; ++p) {
      map[p] += weight * static_cast<double>(features[p * channels + c]);
    }
  }
  for (double& value : map) value = std::max(value, 0.0);
  return map;
}

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// Compares the maps of all classes of the model for one image.
void check_against_differences(const SplitModel& model) {
  const config::Config config = map_config(model.text(model.first + ", " + model.rest));
  const graph::Graph graph =
      model::build_model(config.model, config.data, float_sample(model, model.image), config.seed);
  const graph::LayerInfo& layer = model::find_feature_map(graph, "map");
  const auto whole = predictor(graph, config);
  const std::vector<checkpoint::Tensor> tensors = draw_tensors(*whole);

  const model::FeatureModel cut = model::cut_at_features(graph, "map");
  const auto first = predictor(cut.graph, config);
  first->write(tensors);
  const std::vector<float> image =
      draw_numbers(static_cast<std::size_t>(model.image.elements()), 99);
  const std::vector<float> features = evaluate_one(*first, image);

  const config::Config rest_config = map_config(model.text(model.rest));
  const Shape feature_image{cut.shape[1], cut.shape[2], cut.shape[3]};
  const auto rest =
      predictor(model::build_model(rest_config.model, rest_config.data,
                                   float_sample(model, feature_image), rest_config.seed),
                rest_config);
  rest->write(tensors);

  const auto backend = test::open_test_backend();
  ClassActivation activation(graph, config, layer, *backend);
  write_known(activation.variables(), tensors);
  double top = 0, difference = 0;  // over the maps of all classes
  for (std::int64_t label = 0; label < model.classes; ++label) {
    CAPTURE(label);
    const bool single = rest->replica().outputs() == 1;
    const std::vector<double> expected =
        map_by_differences(features, cut.shape, *rest, single ? 0 : static_cast<std::size_t>(label),
                           single && label == 0 ? -1 : 1);
    const PositionMap map = activation.compute(image.data(), label);
    CHECK(map.height == cut.shape[1]);
    CHECK(map.width == cut.shape[2]);
    REQUIRE(map.values.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference = std::max(difference, std::abs(static_cast<double>(map.values[i]) - expected[i]));
    }
    top = std::max(top, largest(expected));
  }
  CHECK(top > 1e-3);
  CHECK(difference <= 1e-3 * top);
}

}  // namespace

// The steps of the differences cross few corners of piecewise linear functions, so that smooth ones
// follow the layer.
TEST_CASE("ClassActivation: the map equals that of finite differences") {
  const std::string conv = "conv: {filters: 6, activation: relu}";
  const std::string last = "conv: {filters: 6, activation: relu, name: map}";
  SUBCASE("an activation that is computed from its input, and batch norm") {
    check_against_differences(
        {conv + ", batch_norm, " + last,
         "conv: {filters: 5, activation: swish, name: c}, batch_norm: {name: n}, "
         "global_average_pool, dense: {units: 3, name: d}"});
  }
  SUBCASE("a layer that two branches read") {
    check_against_differences(
        {conv + ", conv: {filters: 6, padding: same, activation: gelu, name: map}",
         "residual: {name: r, activation: linear, layers: [conv: {filters: 6, padding: same, "
         "activation: gelu, name: c}, conv: {filters: 6, padding: same, name: e}, batch_norm: "
         "{name: n}]}, average_pool, flatten, dropout: 0.4, dense: {units: 3, name: d}"});
  }
  SUBCASE("batch norm as the layer itself") {
    check_against_differences(
        {conv + ", conv: {filters: 4, use_bias: false}, batch_norm: {name: map}",
         "activation: tanh, flatten, dense: {units: 3, name: d}"});
  }
  SUBCASE("a pooling as the layer, and a dense layer over all positions") {
    check_against_differences(
        {conv + ", max_pool: {name: map}", "flatten, dense: {units: 3, name: d}"});
  }
  SUBCASE("one logit for two classes") {
    SplitModel model{last, "global_average_pool, dense: {units: 1, name: d}",
                     "binary_cross_entropy"};
    model.classes = 2;
    check_against_differences(model);
  }
}

// Behind global average pooling and a dense layer, the weight of a channel is a number of the
// kernel divided by the positions.
TEST_CASE(
    "ClassActivation: a backbone's last layer gives the dense layer's kernel over it as the map") {
  if (test::test_backend_name() != "cpu") return;
  for (const char* name :
       {"mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "resnet18", "resnet50",
        "densenet121", "convnext_tiny", "vgg16", "vit_tiny_patch16"}) {
    CAPTURE(name);
    const config::Config config =
        map_config(concat("{backbone: {name: ", name,
                          ", freeze: all}, head: [global_average_pool, dropout: 0.2, dense: 3]}"));
    const graph::Graph graph = model::build_model(
        config.model, config.data, float_sample(SplitModel{}, {64, 64, 3}), config.seed);
    const graph::LayerInfo& layer = model::find_feature_map(graph, "");
    const auto whole = predictor(graph, config);
    whole->initialise(3);
    const std::vector<checkpoint::Tensor> tensors = whole->replica().tensors();
    const model::FeatureModel cut = model::cut_at_features(graph, layer.name);
    const auto first = predictor(cut.graph, config);
    first->write(tensors);
    const std::vector<float> image = draw_numbers(std::size_t{64} * 64 * 3, 5);
    const std::vector<float> features = evaluate_one(*first, image);
    const auto kernel = std::find_if(tensors.begin(), tensors.end(),
                                     [](const auto& one) { return one.name == "dense/kernel"; });
    REQUIRE(kernel != tensors.end());

    const auto backend = test::open_test_backend();
    ClassActivation activation(graph, config, layer, *backend);
    write_known(activation.variables(), tensors);
    const auto channels = static_cast<std::size_t>(cut.shape[3]);
    const std::size_t positions = features.size() / channels;
    CHECK(positions > 1);
    double top = 0, difference = 0;
    for (std::size_t label = 0; label < 3; ++label) {
      const PositionMap map = activation.compute(image.data(), static_cast<std::int64_t>(label));
      REQUIRE(map.values.size() == positions);
      for (std::size_t p = 0; p < positions; ++p) {
        double sum = 0;
        for (std::size_t c = 0; c < channels; ++c) {
          sum += static_cast<double>(kernel->values[c * 3 + label] * features[p * channels + c]);
        }
        const double expected = std::max(sum / static_cast<double>(positions), 0.0);
        top = std::max(top, expected);
        difference = std::max(difference, std::abs(static_cast<double>(map.values[p]) - expected));
      }
    }
    CHECK(top > 0);
    CHECK(difference <= 1e-4 * top);
  }
}

TEST_CASE("ClassActivation: tokens of patches give the map of the same numbers as an image") {
  const config::Config config = map_config(
      "{layers: [{patch_embedding: {filters: 8, patch_size: [3, 4], class_token: true, name: t}}, "
      "{slice_tokens: {begin: 1}}, {reshape: {target_shape: [3, 2, 8], name: image}}, "
      "{reshape: [6, 8]}, {attention: {num_heads: 2}}, {activation: gelu}, global_average_pool, "
      "{dense: 3}]}");
  const graph::Graph graph = model::build_model(config.model, config.data,
                                                float_sample(SplitModel{}, {9, 8, 3}), config.seed);
  const auto whole = predictor(graph, config);
  const std::vector<checkpoint::Tensor> tensors = draw_tensors(*whole);
  const std::vector<float> image = draw_numbers(std::size_t{9} * 8 * 3, 5);
  const auto backend = test::open_test_backend();
  const auto compute = [&](const char* layer) {
    ClassActivation activation(graph, config, model::find_feature_map(graph, layer), *backend);
    write_known(activation.variables(), tensors);
    return activation.compute(image.data(), 1);
  };
  const PositionMap tokens = compute("t"), pixels = compute("image");
  CHECK(tokens.height == 3);
  CHECK(tokens.width == 2);
  CHECK(tokens.values == pixels.values);
  CHECK(*std::ranges::max_element(tokens.values) > 0);
}

TEST_CASE(
    "find_feature_map finds the last layer with several positions, or fails if there is none") {
  const auto find = [](const std::string& layers, const std::string& name = "") {
    return model::find_feature_map(
               test::build("{layers: [" + layers + "]}", test::sample({12, 12, 1}, 2)), name)
        .name;
  };
  const std::string conv = "conv: {filters: 2, name: c}";
  CHECK(find(conv + ", max_pool: {name: p}, flatten, dense: 2") == "p");
  CHECK(find(conv + ", global_average_pool, dense: 2") == "c");
  CHECK(find(conv + ", max_pool: {name: p}, flatten, dense: 2", "c") == "c");
  // The image itself depends on no parameter; a single position shows nothing.
  CHECK_THROWS_WITH_AS(find("flatten, dense: 2"),
                       doctest::Contains("use --heatmap-method occlusion"), ConfigError);
  CHECK_THROWS_WITH_AS(find("conv: {filters: 2, kernel_size: 12}, flatten, dense: 2"),
                       doctest::Contains("more than one position"), ConfigError);
  CHECK_THROWS_WITH_AS(
      find(conv + ", flatten: {name: f}, dense: 2", "f"),
      doctest::Contains("--heatmap-layer f: the output of this layer is [batch, 200]"),
      ConfigError);
  CHECK_THROWS_WITH_AS(find(conv + ", flatten, dense: 2", "x"),
                       doctest::Contains("--heatmap-layer: there is no layer 'x'"), ConfigError);
}

}  // namespace trainer::engine
