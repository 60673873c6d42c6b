// The names and layouts of PyTorch's state dicts.
#include "model/files/pytorch.h"

#include <doctest/doctest.h>

#include "model/build_model.h"
#include "model/files/import.h"
#include "support/model.h"
#include "support/state_dict.h"

namespace trainer::model {

using checkpoint::Tensor;

namespace {

graph::Graph build_layers(const std::string& layers) {
  return test::build("{layers: " + layers + "}", test::sample({4, 4, 2}, 3));
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return values;
}

// Returns the message of the error that training with this file gives; "" if it takes the file.
std::string import_error(const std::string& backbone, const std::vector<Tensor>& file) {
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.safetensors";
  test::write_state_dict(path, file);
  const config::Config config =
      test::build_config("{backbone: {name: " + backbone + ", weights: '" + path.string() +
                         "'}, head: [global_average_pool, dense: 3]}");
  const graph::Graph graph =
      build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  std::string message;
  try {
    import_weights(graph, config.model);
  } catch (const DataError& error) {
    message = error.what();
  }
  // What plan and validate report is what training reports.
  std::string checked;
  try {
    check_weights(graph, config.model);
  } catch (const DataError& error) {
    checked = error.what();
  }
  CHECK(checked == message);
  return message;
}

// Returns a state dict, or a file of this program, with all tensors of the backbone.
std::vector<Tensor> all_tensors(const std::string& backbone, const std::string& variant) {
  const graph::Graph graph =
      test::build("{backbone: {name: " + backbone + ", variant: " + variant +
                      ", weights: w}, head: [global_average_pool, dense: 3]}",
                  test::sample({32, 32, 3}, 3));
  std::vector<Tensor> tensors;
  for (const graph::LayerInfo& layer : graph.layers) {
    for (const graph::ValueId id : layer.parameters) {
      if (layer.weights.empty()) continue;
      const Shape& shape = graph[id].shape;
      tensors.push_back({graph[id].name, shape,
                         std::vector<float>(static_cast<std::size_t>(shape.elements()), 0.5f)});
    }
  }
  return tensors;
}

Tensor one(const std::string& name) { return {name, {1}, {1}}; }

}  // namespace

TEST_CASE("from_pytorch: convolutions, norms and linear layers are renamed and transposed") {
  const graph::Graph graph = build_layers(
      "[{conv: {filters: 2, kernel_size: 1, name: a.conv}}, {batch_norm: {name: a.norm}}, "
      "{depthwise_conv: {depth_multiplier: 2, kernel_size: 1, name: deep}}, flatten, "
      "{dense: {units: 2, name: fc}}, {dense: {units: 3, name: last}}]");
  const std::vector<Tensor> file{{"a.conv.weight", {2, 2, 1, 1}, {1, 2, 3, 4}},
                                 {"a.norm.weight", {2}, {1, 2}},
                                 {"a.norm.bias", {2}, {1, 2}},
                                 {"a.norm.running_mean", {2}, {1, 2}},
                                 {"a.norm.running_var", {2}, {1, 2}},
                                 {"a.norm.num_batches_tracked", {}, {7}, true},
                                 {"deep.weight", {4, 1, 1, 1}, {1, 2, 3, 4}},
                                 {"fc.weight", {2, 64}, numbers(128)},
                                 {"last.weight", {3, 2}, numbers(6)},
                                 {"last.bias", {3}, {1, 2, 3}},
                                 {"other.weight", {2, 3}, numbers(6)}};
  const std::vector<Tensor> renamed = from_pytorch(graph, file);
  std::vector<std::string> names;
  for (const Tensor& tensor : renamed) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"a.conv/kernel", "a.norm/gamma", "a.norm/beta",
                                          "a.norm/moving_mean", "a.norm/moving_variance",
                                          "deep/depthwise_kernel", "fc/kernel", "last/kernel",
                                          "last/bias", "other.weight"});
  CHECK(renamed[0].shape == Shape{1, 1, 2, 2});
  CHECK(renamed[0].values == std::vector<float>{1, 3, 2, 4});
  CHECK(renamed[5].shape == Shape{1, 1, 1, 4});
  // With 4 channels of 4 x 4 pixels, element c * 16 + p of an output goes to (p * 4 + c) * 2.
  CHECK(renamed[6].shape == Shape{64, 2});
  CHECK(renamed[6].values[0] == 0);
  CHECK(renamed[6].values[1] == 64);
  CHECK(renamed[6].values[2] == 16);
  CHECK(renamed[6].values[8] == 1);
  CHECK(renamed[7].values == std::vector<float>{0, 2, 4, 1, 3, 5});
  CHECK(renamed[9].shape == Shape{2, 3});
}

TEST_CASE("from_pytorch: the first linear layer of VGG16 is read as channels x height x width") {
  const graph::Graph graph =
      test::build("{backbone: {name: vgg16, variant: torchvision, include_top: true}}",
                  test::sample({64, 64, 3}, 3));
  const Shape shape = graph[graph.find("classifier.0/kernel")].shape;
  REQUIRE(shape == Shape{2 * 2 * 512, 4096});
  std::vector<Tensor> file{{"classifier.0.weight", {4096, 2048}, numbers(4096 * 2048)}};
  file = from_pytorch(graph, std::move(file));
  REQUIRE(file[0].name == "classifier.0/kernel");
  CHECK(file[0].values[1] == 2048);        // the next output
  CHECK(file[0].values[4096] == 4);        // the next channel, after 4 pixels
  CHECK(file[0].values[4096 * 512] == 1);  // the next pixel
}

TEST_CASE("from_pytorch: factors of layer scale and convolutions of whole images are converted") {
  const graph::Graph graph = build_layers(
      "[{layer_scale: {name: block.gamma}}, {layer_scale: {name: block.layer_scale}}, "
      "flatten, {dense: {units: 3, name: fc}}]");
  const std::vector<Tensor> renamed =
      from_pytorch(graph, {{"block.gamma", {2}, {1, 2}},
                           {"block.layer_scale", {2, 1, 1}, {1, 2}},
                           {"fc.weight", {3, 2, 4, 4}, numbers(96)}});
  CHECK(renamed[0].name == "block.gamma/gamma");
  CHECK(renamed[1].name == "block.layer_scale/gamma");
  CHECK(renamed[1].shape == Shape{2});
  CHECK(renamed[2].shape == Shape{32, 3});
  CHECK(renamed[2].values[3] == 16);  // the second channel of the first pixel
}

TEST_CASE("import_weights: the error of a file without a name of the backbone has the names") {
  const std::string densenet =
      import_error("densenet121", {one("stages.0.conv0.weight"), one("stages.0.norm0.weight")});
  CHECK(densenet.find("has no tensor that the model takes: it holds stages.0.conv0.weight, "
                      "stages.0.norm0.weight") != std::string::npos);
  CHECK(densenet.find("Expected are the names of keras.applications.DenseNet121: "
                      "conv1_conv/kernel, ") != std::string::npos);
  CHECK(densenet.find("model.backbone.variant is keras; its values for this backbone are keras, "
                      "torchvision, timm") != std::string::npos);
  CHECK(import_error("mobilenet_v2", {one("encoder.0.weight")}).find("has no tensor") !=
        std::string::npos);
}

TEST_CASE("import_weights fails if no tensor is loaded, also where allow_missing covers all") {
  const std::string error =
      import_error("mobilenet_v2, allow_missing: ['*']", {one("encoder.0.weight")});
  CHECK(error.find("has no tensor that the model takes") != std::string::npos);
}

TEST_CASE("import_weights: a deeper network, or one with more layers in its blocks, is an error") {
  struct Case {
    const char *backbone, *variant, *more, *layer;
  };
  const Case cases[] = {
      {"resnet50", "keras", "conv4_block7_1_conv/kernel", "conv4_block7_1_conv"},
      {"resnet50", "torchvision", "layer3.6.conv1.weight", "layer3.6.conv1"},
      {"resnet50", "torchvision", "layer1.0.se.fc1.weight", "layer1.0.se.fc1"},
      {"resnet18", "torchvision", "layer1.2.conv1.weight", "layer1.2.conv1"},
      {"vgg16", "keras", "block3_conv4/kernel", "block3_conv4"},
      {"efficientnet_b0", "keras", "block1b_dwconv/depthwise_kernel", "block1b_dwconv"},
      {"densenet121", "keras", "conv4_block25_1_conv/kernel", "conv4_block25_1_conv"}};
  for (const Case& c : cases) {
    CAPTURE(c.more);
    std::vector<Tensor> file = all_tensors(c.backbone, c.variant);
    CHECK(import_error(c.backbone, file).empty());
    file.push_back(one(c.more));
    CHECK(import_error(c.backbone, file).find(concat("which lacks its layers ", c.layer, ";")) !=
          std::string::npos);
  }
}

TEST_CASE("import_weights accepts the classifier and a head of the file's own") {
  for (const char* layer :
       {"predictions/kernel", "dense_1/kernel", "conv2d_5/kernel", "batch_normalization_3/gamma"}) {
    CAPTURE(layer);
    std::vector<Tensor> file = all_tensors("resnet50", "keras");
    file.push_back(one(layer));
    CHECK(import_error("resnet50", file).empty());
  }
  std::vector<Tensor> file = all_tensors("resnet50", "torchvision");
  file.push_back(one("fc.weight"));
  CHECK(import_error("resnet50", file).empty());
}

TEST_CASE("import_weights: model.weights reads the names of PyTorch") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.safetensors";
  test::write_state_dict(path, {{"fc.weight", {3, 32}, numbers(96)}, {"fc.bias", {3}, {1, 2, 3}}});
  const config::Config config = test::build_config(
      "{layers: [flatten, {dense: {units: 3, name: fc}}], weights: '" + path.string() + "'}");
  const graph::Graph graph = build_model(config.model, config.data, test::sample({4, 4, 2}, 3), 1);
  const Import import = import_weights(graph, config.model);
  REQUIRE(import.report.loaded == std::vector<std::string>{"fc/kernel", "fc/bias"});
  CHECK(import.tensors[0].values[3] == 16);  // the second channel of the first pixel
}

}  // namespace trainer::model
