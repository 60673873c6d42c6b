// Backbones give the features of Keras and torchvision, with weights that a formula makes of their
// names. Fixtures: test/keras/make_backbone_features.py, test/keras/make_torchvision_features.py
// and test/keras/make_pytorch_features.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "backend/model_runs.h"
#include "compile/compile.h"
#include "model/features.h"
#include "model/files/import.h"
#include "support/model.h"
#include "support/source_files.h"
#include "support/state_dict.h"

namespace trainer::test {
namespace {

using nlohmann::json;

const json& fixture() {
  static const json content =
      json::parse(std::ifstream(source_file("test/keras/backbones/features.json")));
  return content;
}

// Numbers in [-1, 1] of integers alone, chaos() of the script, times `scale` plus `offset`. They
// repeat, so that most of them are copies.
template <class T>
std::vector<T> chaos(std::int64_t count, std::int64_t number, double offset = 0, double scale = 1) {
  constexpr std::int64_t kPeriod = 100003;
  std::vector<T> values(static_cast<std::size_t>(count));
  T* const first = values.data();
  for (std::int64_t i = 0; i < std::min(count, kPeriod); ++i) {
    const std::int64_t mixed = (i * i * 31 + i * 17 + number * 101) % 10007;
    first[i] = static_cast<T>(offset + scale * (static_cast<double>(mixed) / 5003.0 - 1));
  }
  for (std::int64_t at = kPeriod; at < count; at += kPeriod) {
    std::copy_n(first, std::min(kPeriod, count - at), first + at);
  }
  return values;
}

std::int64_t add_letters(const std::string& text) {
  return std::accumulate(text.begin(), text.end(), std::int64_t{0});
}

std::vector<float> compute_value(const std::string& name, const Shape& shape) {
  const std::size_t slash = name.rfind('/');
  const std::string layer = name.substr(0, slash), kind = name.substr(slash + 1);
  const double inputs = static_cast<double>(shape.elements() / shape[shape.rank() - 1]);
  double offset = 0, scale = std::sqrt(6 / inputs);
  if (kind == "gamma" || kind == "moving_variance") {
    offset = 0.75, scale = 0.25;
  } else if (kind == "beta" || kind == "bias" || kind == "moving_mean") {
    scale = 0.1;
  }
  return chaos<float>(shape.elements(), add_letters(layer) + add_letters(kind), offset, scale);
}

graph::Graph make_model(const std::string& name, std::int64_t outputs, bool head) {
  const auto image = fixture()["image"].get<std::vector<std::int64_t>>();
  model::SampleSpec spec = sample(Shape(image), outputs);
  spec.label_is_index = false;
  spec.image_type = DType::kFloat32;
  return build("{backbone: {name: " + name + "}, head: [{flatten: {name: features}}" +
                   (head ? ", dense: 3" : "") + "], loss: mean_squared_error}",
               spec, "data: {format: synthetic, normalize: {scale: 1}}\n");
}

// The layers with weights, in order, and the number of all numbers.
void check_layers(const std::string& name, const json& c, const graph::Graph& graph) {
  std::vector<std::string> ours, keras;
  std::int64_t count = 0;
  for (const graph::LayerInfo& layer : graph.layers) {
    if (layer.parameters.empty()) continue;
    std::string weights = layer.name;
    for (const graph::ValueId id : layer.parameters) {
      const graph::Value& value = graph[id];
      weights += value.name.substr(value.name.rfind('/'));
      count += value.shape.elements();
    }
    ours.push_back(weights);
  }
  for (const auto& row : c["layers"]) {
    std::string weights = row[0];
    for (const auto& weight : row[1]) weights += "/" + weight[0].get<std::string>();
    keras.push_back(weights);
  }
  // Keras sorts by depth, so that a shortcut may stand between the layers beside it.
  std::sort(ours.begin(), ours.end());
  std::sort(keras.begin(), keras.end());
  CHECK_MESSAGE(ours == keras, name);
  CHECK_MESSAGE(count == c["parameters"].get<std::int64_t>(), name);
}

// Compares with the norm and the chosen numbers of a row of a fixture.
void check_features(const std::string& name, const json& c, const std::vector<float>& got) {
  REQUIRE(got.size() == c["count"].get<std::size_t>());
  double squares = 0;
  std::vector<float> chosen;
  const auto step = c["step"].get<std::size_t>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    squares += static_cast<double>(got[i]) * static_cast<double>(got[i]);
    if (i % step == 0) chosen.push_back(got[i]);
  }
  const double norm = c["norm"], error = distance(chosen, c["features"].get<std::vector<double>>());
  MESSAGE(name, ": features ", error, " from those in float64, norm ",
          std::abs(std::sqrt(squares) - norm) / norm);
  CHECK_MESSAGE(error < 2e-5, name, ": ", error);
  CHECK_MESSAGE(std::abs(std::sqrt(squares) - norm) < 2e-5 * norm, name);
}

// `head`: with a dense layer, before which the model is cut as trainer predict --features does.
void check_backbone(const std::string& name, bool head = false) {
  const json& c = fixture()[name];
  graph::Graph model = make_model(name, head ? 3 : c["count"].get<std::int64_t>(), head);
  if (head) {
    const model::FeatureModel features = model::cut_at_features(model, "");
    CHECK(features.layer == "features");
    model = features.graph;
  }
  check_layers(name, c, model);
  const Setup setup = setups()[0];
  compile::Options options;
  const graph::Graph graph = compile::evaluation_graph(model, options, true);
  Runner runner(open(setup), graph, {});
  for (const graph::Value& value : graph.values) {
    // Constants of layers without a gamma or beta keep their number.
    if (value.role == graph::Role::kParameter || value.role == graph::Role::kStatistic) {
      runner.write(value.name, compute_value(value.name, value.shape));
    }
  }
  const auto image = fixture()["image"].get<std::vector<std::int64_t>>();
  const auto got = runner.run(1, {chaos<double>(Shape(image).elements(), 7)});
  check_features(name, c, got[0]);
}

// Returns the tensors of a state dict: compute_value() of make_torchvision_features.py.
std::vector<checkpoint::Tensor> state_dict(const json& c) {
  std::vector<checkpoint::Tensor> tensors;
  for (const auto& row : c["state"]) {
    const std::string name = row[0];
    const Shape shape(row[1].get<std::vector<std::int64_t>>());
    if (name.ends_with("num_batches_tracked")) {
      tensors.push_back({name, shape, {7}, true});
      continue;
    }
    double offset = 0, scale = 0.1;
    if (name.ends_with(".running_var") || (name.ends_with(".weight") && shape.rank() == 1)) {
      offset = 0.75, scale = 0.25;
    } else if (name.ends_with(".weight")) {
      scale = std::sqrt(6 / static_cast<double>(shape.elements() / shape[0]));
    }
    tensors.push_back(
        {name, shape, chaos<float>(shape.elements(), add_letters(name), offset, scale)});
  }
  return tensors;
}

// Loads a state dict as torchvision saves it, of which only the file's names give the variant.
// "resnet18_top": with the classifier.
void check_torchvision(const std::string& name) {
  static const json content =
      json::parse(std::ifstream(source_file("test/keras/backbones/torchvision.json")));
  const json& c = content[name];
  const TemporaryFolder folder;
  const Path file = folder.path() / "w.safetensors";
  write_state_dict(file, state_dict(c));
  const std::size_t top = name.find("_top");
  const config::Config config = build_config(
      "{backbone: {name: " + name.substr(0, top) + ", weights: '" + file.string() + "'" +
          (top == std::string::npos ? "}, head: [flatten]" : ", include_top: true}") +
          ", loss: mean_squared_error}",
      "data: {format: synthetic, normalize: {scale: 1}}\n");
  model::SampleSpec spec = sample(Shape(content["image"].get<std::vector<std::int64_t>>()),
                                  c["count"].get<std::int64_t>());
  spec.label_is_index = false;
  spec.image_type = DType::kFloat32;
  const graph::Graph model = model::build_model(config.model, config.data, spec, 1);
  const model::Import import = model::import_weights(model, config.model);
  CHECK(import.report.extra.empty());
  Runner runner(open(setups()[0]), compile::evaluation_graph(model, {}, true), {});
  for (const checkpoint::Tensor& tensor : import.tensors) {
    runner.write(tensor.name, tensor.values);
  }
  check_features(name, c, runner.run(1, {chaos<double>(spec.image.elements(), 7)})[0]);
}

const json& pytorch_fixture() {
  static const json content =
      json::parse(std::ifstream(source_file("test/keras/backbones/pytorch.json")));
  return content;
}

// digest() of make_pytorch_features.py.
std::uint64_t compute_digest(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return value;
}

// Returns the name that PyTorch gives to a parameter.
std::string name_in_pytorch(const graph::LayerInfo& layer, const std::string& parameter) {
  if (layer.kind == "LayerScale" || layer.kind == "PrependTokens" ||
      layer.kind == "PositionEmbedding") {
    return layer.name;
  }
  const std::string kind = parameter.substr(parameter.rfind('/') + 1);
  const std::map<std::string, std::string> names{{"beta", "bias"},
                                                 {"bias", "bias"},
                                                 {"moving_mean", "running_mean"},
                                                 {"moving_variance", "running_var"}};
  const auto found = names.find(kind);
  // torch.nn.MultiheadAttention has no module for its first projection.
  const char separator = layer.name.ends_with("in_proj") ? '_' : '.';
  return layer.name + separator + (found == names.end() ? "weight" : found->second);
}

// Returns value_of() of make_pytorch_features.py, with the rank that the tensor has in the file.
checkpoint::Tensor make_tensor(const std::string& name, std::int64_t count, std::int64_t outputs,
                               const Shape& kernel, int rank) {
  if (rank == 3 && kernel.rank() == 2) {  // tokens
    return {name, {1, kernel[0], kernel[1]}, chaos<float>(count, add_letters(name), 0, 0.1)};
  }
  const bool is_scale = name.ends_with("gamma") || name.ends_with("lambda1") ||
                        name.ends_with("layer_scale") || name.ends_with("layer_scale_parameter");
  const bool is_weight = name.ends_with(".weight");
  double offset = 0, scale = 0.1;
  const bool is_vector = kernel.rank() == 1;
  if (is_scale || name.ends_with(".running_var") || (is_weight && is_vector)) {
    offset = 0.75, scale = 0.25;
  } else if (is_weight) {
    scale = std::sqrt(6 / static_cast<double>(count / outputs));
  }
  Shape shape{count};
  if (rank == 2) shape = {outputs, count / outputs};
  if (rank == 3) shape = {count, 1, 1};
  if (rank == 4 && is_vector) {
    shape = {1, 1, 1, count};  // transformers' global response normalization
  } else if (rank == 4) {
    shape = {outputs, count / outputs / (kernel[0] * kernel[1]), kernel[0], kernel[1]};
  }
  return {name, shape, chaos<float>(count, add_letters(name), offset, scale)};
}

// Returns the state dict of the network in its library, whose names and sizes the fixture checks.
std::vector<checkpoint::Tensor> make_state_dict(const graph::Graph& graph, const json& c) {
  std::map<std::string, graph::ValueId> values;
  for (const graph::LayerInfo& layer : graph.layers) {
    for (const graph::ValueId id : layer.parameters) {
      values[name_in_pytorch(layer, graph[id].name)] = id;
    }
  }
  const std::string ranks = c["ranks"];
  std::string text;
  std::vector<checkpoint::Tensor> tensors;
  for (const auto& [name, id] : values) {
    const Shape& shape = graph[id].shape;
    text += concat(name, ' ', shape.elements(), '\n');
    const int rank = tensors.size() < ranks.size() ? ranks[tensors.size()] - '0' : 0;
    tensors.push_back(make_tensor(name, shape.elements(), shape[shape.rank() - 1], shape, rank));
  }
  REQUIRE(tensors.size() == ranks.size());
  REQUIRE(compute_digest(text) == c["tensors"].get<std::uint64_t>());
  return tensors;
}

// A network of a library with the weights of the fixture's formula.
struct LibraryNetwork {
  graph::Graph graph;
  model::Import import;
};

constexpr const char* kPlainData = "data: {format: synthetic, normalize: {scale: 1}}\n";

// Loads the state dict of the variant's library, made for images `of_file`, into the network for
// images of another size. `is_named`: whether the config names the variant, which it may leave out
// where the names in the file decide.
LibraryNetwork load_network(const std::string& name, const std::string& variant, bool is_named,
                            const model::SampleSpec& of_file, const model::SampleSpec& spec,
                            const std::string& more = "}, loss: mean_squared_error") {
  const TemporaryFolder folder;
  const Path file = folder.path() / "w.safetensors";
  const std::string start = "{backbone: {name: " + name + ", include_top: true",
                    named = ", variant: " + variant;
  write_state_dict(file, make_state_dict(build(start + named + more + '}', of_file, kPlainData),
                                         pytorch_fixture()[name + ' ' + variant]));
  const config::Config config = build_config(
      start + (is_named ? named : "") + ", weights: '" + file.string() + "'" + more + '}',
      kPlainData);
  LibraryNetwork network{model::build_model(config.model, config.data, spec, 1), {}};
  network.import = model::import_weights(network.graph, config.model);
  CHECK(network.import.report.extra.empty());
  return network;
}

model::SampleSpec make_sample(const json& image, std::int64_t classes, bool label_is_index) {
  model::SampleSpec spec = sample(Shape(image.get<std::vector<std::int64_t>>()), classes);
  spec.label_is_index = label_is_index;
  spec.image_type = DType::kFloat32;
  return spec;
}

// Compares the logits with those of the variant's library.
void check_variant(const std::string& name, const std::string& variant, bool is_named) {
  const json& c = pytorch_fixture()[name + ' ' + variant];
  const auto classes = c["count"].get<std::int64_t>();
  const model::SampleSpec spec =
      make_sample(c.contains("image") ? c["image"] : pytorch_fixture()["image"], classes, false);
  // The weights of ViT and DINOv2 are those for an image of another size.
  const LibraryNetwork network = load_network(
      name, variant, is_named,
      c.contains("file_image") ? make_sample(c["file_image"], classes, false) : spec, spec);
  Runner runner(open(setups()[0]), compile::evaluation_graph(network.graph, {}, true), {});
  for (const checkpoint::Tensor& tensor : network.import.tensors) {
    runner.write(tensor.name, tensor.values);
  }
  check_features(concat(name, " of ", variant), c,
                 runner.run(1, {chaos<double>(spec.image.elements(), 7)})[0]);
}

double compute_norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

// Compares the norm of each parameter's gradient with that of the variant's library.
void check_gradients(const std::string& name, const std::string& variant) {
  const json& c = pytorch_fixture()[name + ' ' + variant];
  const model::SampleSpec spec =
      make_sample(c.contains("file_image") ? c["file_image"] : pytorch_fixture()["image"],
                  c["count"].get<std::int64_t>(), true);
  const LibraryNetwork network =
      load_network(name, variant, true, spec, spec, ", batch_norm: eval}");
  Runner runner(open(setups()[0]), compile::training_graph(network.graph, {}), {});
  std::map<std::string, std::vector<double>> values;
  for (const checkpoint::Tensor& tensor : network.import.tensors) {
    values[tensor.name].assign(tensor.values.begin(), tensor.values.end());
  }
  start(runner, values);
  // The parameters fall by their gradients times a rate, next to which they are small.
  constexpr double kRate = 4096;
  backend::Scalars scalars = gradient_scalars(1);
  scalars.learning_rate = kRate;
  runner.run(1, {chaos<double>(spec.image.elements(), 7), {7}}, scalars);
  std::map<std::string, double> norms;
  for (const graph::LayerInfo& layer : network.graph.layers) {
    for (const graph::ValueId id : layer.parameters) {
      const graph::Value& value = network.graph[id];
      if (!value.trainable) continue;
      norms[name_in_pytorch(layer, value.name)] =
          compute_norm(lost(runner, values, {value.name})) / kRate;
    }
  }
  const auto expected = c["gradients"].get<std::vector<double>>();
  REQUIRE(norms.size() == expected.size());
  const double largest = std::ranges::max(expected);
  double worst = 0;
  std::size_t i = 0;
  for (const auto& [tensor, norm] : norms) {
    const double error = std::abs(norm - expected[i]) / std::max(expected[i], 1e-4 * largest);
    CHECK_MESSAGE(error < 1e-4, name, ", ", tensor, ": ", norm, ", expected ", expected[i]);
    worst = std::max(worst, error);
    ++i;
  }
  MESSAGE(name, " of ", variant, ": norms of gradients ", worst, " from those in float64");
}

}  // namespace

TEST_CASE("import_weights: state dicts of PyTorch give the logits of the variant's network") {
  for (const auto& [name, variant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"mobilenet_v2", "torchvision"},
           {"mobilenet_v2", "timm"},
           {"mobilenet_v3_small", "torchvision"},
           {"mobilenet_v3_large", "torchvision"},
           {"efficientnet_b0", "torchvision"},
           {"efficientnetv2_b0", "timm_tf"},
           {"densenet121", "torchvision"},
           {"resnet18", "transformers"},
           {"resnet50", "transformers"},
           {"resnext50_32x4d", "torchvision"},
           {"resnet20_cifar", "torchvision"},
           {"regnet_y_400mf", "torchvision"},
           {"regnet_y_400mf", "timm"},
           {"mobilenetv4_conv_small", "timm"},
           {"mobilenetv4_conv_medium", "timm"},
           {"xception", "timm"},
           {"convnext_tiny", "torchvision"},
           {"convnext_tiny", "timm"},
           {"convnext_tiny", "transformers"},
           {"convnextv2_atto", "timm"},
           {"convnextv2_atto", "transformers"}}) {
    check_variant(name, variant, false);
  }
}

TEST_CASE("import_weights loads timm's state dicts into the network that backbone.variant names") {
  for (const char* name : {"mobilenet_v3_small", "efficientnet_b0"}) {
    check_variant(name, "timm", true);
    check_variant(name, "timm_tf", true);
  }
  check_variant("mobilenet_v3_large", "timm", true);
}

TEST_CASE("backbone: VGG, ResNet, DenseNet and MobileNetV2 compute Keras's features") {
  for (const char* name :
       {"vgg16", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "densenet121"}) {
    check_backbone(name);
  }
}

TEST_CASE("import_weights: state dicts of torchvision give the features of its networks") {
  for (const char* name :
       {"vgg16", "resnet18", "resnet18_top", "resnet34", "resnet50", "resnet101"}) {
    check_torchvision(name);
  }
}

TEST_CASE("cut_at_features: a model with its head computes Keras's features") {
  check_backbone("resnet18", true);
  check_backbone("mobilenet_v3_small", true);
}

TEST_CASE("backbone: EfficientNet, MobileNetV3, ConvNeXt and Xception compute Keras's features") {
  for (const char* name :
       {"efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
        "mobilenet_v3_small", "mobilenet_v3_large", "convnext_tiny", "xception"}) {
    check_backbone(name);
  }
}

TEST_CASE("import_weights: state dicts of ViT and DINOv2 give the logits for images of any size") {
  for (const auto& [name, variant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"vit_tiny_patch16", "timm"},
           {"vit_tiny_patch16", "transformers"},
           {"vit_base_patch16", "torchvision"},
           {"dinov2_small", "timm"},
           {"dinov2_small_reg", "timm"},
           {"dinov2_small", "transformers"},
           {"dinov2_small_reg", "transformers"}}) {
    check_variant(name, variant, false);
  }
}

TEST_CASE("training_graph: gradients of the networks of libraries have the norms of PyTorch's") {
  for (const auto& [name, variant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"vit_tiny_patch16", "timm"},
           {"vit_base_patch16", "torchvision"},
           {"dinov2_small_reg", "timm"},
           {"convnextv2_atto", "timm"},
           {"regnet_y_400mf", "timm"},
           {"mobilenetv4_conv_small", "timm"}}) {
    check_gradients(name, variant);
  }
}

}  // namespace trainer::test
