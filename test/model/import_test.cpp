#include "model/import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/formats/zip.h"
#include "checkpoint/weights.h"
#include "model/export.h"
#include "support/model.h"
#include "support/skip.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;

const std::string kLayers = R"([
  {conv: {filters: 4, name: first_conv}}, {batch_norm: {name: first_bn}},
  {depthwise_conv: {depth_multiplier: 2, use_bias: false, name: deep}},
  {separable_conv: {filters: 5, kernel_size: 1, name: both}}, {relu: {max_value: 6, name: cut}},
  {global_average_pool: {name: pool}}, {dropout: {name: drop}}, {dense: {units: 3, name: last}}])";

struct Model {
  config::Config config;
  graph::Graph graph;
};
Model model_of(const std::string& weights, const std::string& layers = kLayers,
               const std::string& more = "") {
  Model model;
  model.config =
      test::config_of("{layers: " + layers + ", weights: \"" + weights + "\"" + more + "}");
  model.graph = build_model(model.config.model, model.config.data, test::sample({8, 8, 3}, 3), 1);
  return model;
}

std::string fixture(const std::string& name) {
  return test::source_file("test/keras/weights/") + name;
}

std::vector<std::string> names_of(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::LayerInfo& layer : graph.layers) {
    for (const graph::ValueId id : layer.parameters) names.push_back(graph[id].name);
  }
  return names;
}

// The formula of make_weight_files.py.
void check_values(const Model& model, const std::vector<Tensor>& tensors) {
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : tensors) by_name[tensor.name] = &tensor;
  float number = 0;
  for (const std::string& name : names_of(model.graph)) {
    number += 1;
    CAPTURE(name);
    REQUIRE(by_name.contains(name));
    const Tensor& tensor = *by_name[name];
    CHECK(tensor.shape == model.graph[model.graph.find(name)].shape);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      wrong += tensor.values[i] != number + static_cast<float>(i) / 1024;
    }
    CHECK(wrong == 0);
  }
}

// Every parameter and statistic with numbers of its own.
std::vector<Tensor> counted(const graph::Graph& graph) {
  std::vector<Tensor> tensors;
  float number = 0;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    Tensor tensor{value.name, value.shape, {}};
    for (std::int64_t i = 0; i < value.shape.elements(); ++i) tensor.values.push_back(number += 1);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string message_of(const Model& model) {
  try {
    import_weights(model.graph, model.config.model);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every file that Keras writes gives every weight its place and numbers") {
  for (const char* file : {"applications.h5", "keras3.keras", "nested.h5", "arrays.npz"}) {
    CAPTURE(file);
    const Model model = model_of(fixture(file));
    const Import import = import_weights(model.graph, model.config.model);
    check_values(model, import.tensors);
    CHECK(import.report.loaded.size() == 12);
    CHECK(import.report.complete());
    // nested.h5 has a layer more than the model.
    CHECK(import.report.extra.size() == (std::string(file) == "nested.h5" ? 2 : 0));
  }
}

TEST_CASE("the .weights.h5 that a .keras holds loads on its own") {
  const std::string archive = fixture("keras3.keras");
  const Bytes content = read_file(archive);
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.weights.h5";
  for (const ZipMember& member : zip_members(content, archive)) {
    if (member.name != "model.weights.h5") continue;
    Bytes unpacked(zip_size(content, member, archive));
    unzip(content, member, unpacked, archive);
    write_file_atomic(path, unpacked);
  }
  const Model model = model_of(path);
  check_values(model, import_weights(model.graph, model.config.model).tensors);
}

TEST_CASE("missing, extra and ill-shaped tensors are named") {
  const std::string layers = R"([{conv: {filters: 5, name: first_conv}}, {global_average_pool: {}},
                                 {dense: {units: 3, name: other}}])";
  const std::string found = message_of(model_of(fixture("keras3.keras"), layers));
  CHECK(found.find("0 tensors loaded, 2 missing, 2 of another shape") != std::string::npos);
  CHECK(found.find("missing:\n    other/kernel\n    other/bias") != std::string::npos);
  CHECK(found.find("first_conv/kernel: [3, 3, 3, 4] in the file, [3, 3, 3, 5] in the model") !=
        std::string::npos);
  CHECK(found.find("first_bn/0") != std::string::npos);
}

TEST_CASE("the file of another network is told as such, in a few lines") {
  const auto config = test::config_of(
      concat("{backbone: {name: mobilenet_v2, alpha: 0.5, weights: '", fixture("keras3.keras"),
             "'}, head: [global_average_pool, dense: 3]}"));
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  std::string found;
  try {
    import_weights(graph, config.model);
  } catch (const DataError& error) {
    found = error.what();
  }
  CHECK(std::count(found.begin(), found.end(), '\n') < 30);
  CHECK(found.find("\n    and 252 more\n") != std::string::npos);
  CHECK(found.find("of another network than MobileNetV2 with alpha: 0.5") != std::string::npos);
}

TEST_CASE("allow_missing leaves tensors as initialised and says so") {
  const std::string layers = R"([{conv: {filters: 4, name: first_conv}}, {global_average_pool: {}},
                                 {dense: {units: 3, name: last}}])";
  const Model model = model_of(fixture("arrays.npz"), layers, ", allow_missing: [last]");
  const Import import = import_weights(model.graph, model.config.model);
  CHECK(import.report.loaded ==
        std::vector<std::string>{"first_conv/kernel", "first_conv/bias", "last/bias"});
  CHECK(import.report.initialised == std::vector<std::string>{"last/kernel"});
  CHECK(import.report.line() ==
        fixture("arrays.npz") + ": 3 tensors loaded; 1 of the model left as initialised, " +
            std::to_string(import.report.extra.size()) + " of the file unused");
  CHECK(import.tensors.size() == 3);
}

TEST_CASE("what was not loaded is told in a line for each kind, as a note where it was allowed") {
  ImportReport report;
  report.path = "w.h5";
  CHECK(report.notices().empty());
  report.loaded = {"a"};
  report.initialised = {"last/kernel", "last/bias"};
  REQUIRE(report.notices().size() == 1);
  CHECK(report.notices()[0].kind == Notice::Kind::kNote);
  CHECK(report.notices()[0].text ==
        "w.h5: 2 tensors of the model left as initialised, as allow_missing says: last/kernel, "
        "last/bias");
  for (int i = 0; i < 11; ++i) report.extra.push_back("x" + std::to_string(i));
  REQUIRE(report.notices().size() == 2);
  CHECK(report.notices()[1].kind == Notice::Kind::kWarning);
  CHECK(report.notices()[1].text ==
        "w.h5: 11 tensors of the file unused, for which the model has no place: x0, x1, x2, x3, "
        "x4, x5, x6, x7 and 3 more");
  report.loaded.clear();
  CHECK(report.notices()[0].kind == Notice::Kind::kWarning);
  CHECK(report.notices()[0].text.ends_with("last/bias; none was loaded"));
  report.extra = {"y"};
  CHECK(report.notices()[1].text ==
        "w.h5: 1 tensor of the file unused, for which the model has no place: y");
}

TEST_CASE("a model continues from another run: all layers, of the best checkpoint") {
  const TemporaryFolder folder;
  const Path checkpoints = folder.path() / "checkpoints";
  std::filesystem::create_directories(checkpoints);
  const std::string text =
      "{backbone: {name: mobilenet_v2, alpha: 0.35, weights: nowhere.h5, freeze: all}, head: "
      "[global_average_pool, dense: 3], weights: '" +
      folder.path().string() + "'}";
  const auto config = test::config_of(text);
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  const auto write = [&](const std::string& name, float value, bool slots) {
    std::vector<Tensor> tensors;
    for (const std::string& parameter : names_of(graph)) {
      for (const graph::LayerInfo& layer : graph.layers) {
        for (const graph::ValueId id : layer.parameters) {
          if (graph[id].name != parameter) continue;
          const Shape shape = graph[id].shape;
          const std::vector<float> values(static_cast<std::size_t>(shape.elements()), value);
          tensors.push_back({parameter, shape, values});
          if (slots) tensors.push_back({parameter + "/m", shape, values});
        }
      }
    }
    if (slots) {
      tensors.push_back({"dense/kernel/average", tensors.back().shape, tensors.back().values});
      for (Tensor& tensor : tensors) {
        if (tensor.name == "dense/kernel") tensors.back().shape = tensor.shape;
      }
      tensors.back().values.assign(static_cast<std::size_t>(tensors.back().shape.elements()),
                                   value + 0.5f);
    }
    checkpoint::write_safetensors(checkpoints / name, tensors, {});
  };
  const auto value_of = [](const Import& import, const std::string& name) {
    for (const Tensor& tensor : import.tensors) {
      if (tensor.name == name) return tensor.values.front();
    }
    return -1.0f;
  };

  CHECK_THROWS_WITH_AS(import_weights(graph, config.model),
                       doctest::Contains("is a run folder without a checkpoint"), DataError);
  write("step-00000010.safetensors", 1, false);
  write("step-00000020.safetensors", 2, true);
  Import import = import_weights(graph, config.model);
  CHECK(import.report.complete());
  CHECK(import.report.extra.empty());
  CHECK(import.report.loaded.size() == names_of(graph).size());
  CHECK(value_of(import, "Conv1/kernel") == 2);
  CHECK(value_of(import, "dense/bias") == 2);
  CHECK(value_of(import, "dense/kernel") == 2.5f);  // the average, as in evaluation
  write("best.safetensors", 3, false);
  import = import_weights(graph, config.model);
  CHECK(value_of(import, "Conv1/kernel") == 3);
  CHECK(value_of(import, "dense/kernel") == 3);
  CHECK(import.report.path.find("best.safetensors") != std::string::npos);
  CHECK(missing_weights(config.model, {}).empty());

  const auto gone =
      test::config_of("{backbone: vgg16, head: [flatten, dense: 3], weights: /nowhere/run}");
  CHECK(missing_weights(gone.model, {}).find("no such file or run folder") != std::string::npos);
}

TEST_CASE("a missing file says which file Keras has and how to name it") {
  const auto config = test::config_of(
      "{backbone: {name: mobilenet_v2, alpha: 0.5, weights: nowhere.h5}, head: "
      "[global_average_pool, dense: 3]}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  CHECK_THROWS_WITH_AS(
      import_weights(graph, config.model),
      doctest::Contains("mobilenet_v2_weights_tf_dim_ordering_tf_kernels_0.5_224_no_top.h5"),
      DataError);
  CHECK_THROWS_WITH_AS(import_weights(graph, config.model),
                       doctest::Contains("model.backbone.weights"), DataError);
}

TEST_CASE("files that are no weights, or cut off, are refused by name") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.h5";
  write_file_atomic(path, "layers: [dense]\n");
  CHECK(message_of(model_of(path)).find("is a text file; expected Keras .h5") != std::string::npos);
  const Bytes whole = read_file(fixture("applications.h5"));
  for (const std::size_t size : {std::size_t{9}, std::size_t{600}, whole.size() / 2}) {
    write_file_atomic(path, std::span(whole).first(size));
    CHECK(message_of(model_of(path)).find(path.string()) == 0);
  }
}

TEST_CASE("exported files come back bit for bit") {
  const TemporaryFolder folder;
  for (const char* name : {"x.h5", "x.weights.h5", "x.safetensors"}) {
    CAPTURE(name);
    const Path path = folder.path() / name;
    const Model model = model_of(path);
    const std::vector<Tensor> tensors = counted(model.graph);
    if (path.extension() == ".safetensors") {
      export_safetensors(model.graph, tensors, path);
    } else {
      export_keras_h5(model.graph, model.config.model, tensors, path);
    }
    const Import import = import_weights(model.graph, model.config.model);
    CHECK(import.report.extra.empty());
    CHECK(checkpoint::sha256_of(import.tensors) == checkpoint::sha256_of(tensors));
  }
}

TEST_CASE(
    "ConvNeXt is exported as the layers that Keras has: dense ones, and models in the model") {
  std::ifstream fixture_file(test::source_file("test/keras/backbones/features.json"));
  const nlohmann::json expected = nlohmann::json::parse(fixture_file)["convnext_tiny"]["layers"];
  const TemporaryFolder folder;
  for (const char* name : {"x.h5", "x.weights.h5"}) {
    CAPTURE(name);
    const Path path = folder.path() / name;
    config::Config config = test::config_of(
        concat("{backbone: convnext_tiny, head: [global_average_pool, dense: 3], weights: \"",
               path.string(), "\"}"));
    const graph::Graph graph =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    const std::vector<Tensor> tensors = counted(graph);
    export_keras_h5(graph, config.model, tensors, path);
    CHECK(checkpoint::sha256_of(import_weights(graph, config.model).tensors) ==
          checkpoint::sha256_of(tensors));
    std::map<std::string, std::vector<Shape>> shapes;
    for (const Tensor& tensor : checkpoint::read_weights(path)) {
      shapes[tensor.name.substr(0, tensor.name.rfind('/'))].push_back(tensor.shape);
    }
    REQUIRE(shapes.size() == expected.size() + 1);  // with the head
    for (const nlohmann::json& layer : expected) {
      const std::string of_layer = layer[0];
      CAPTURE(of_layer);
      std::vector<Shape> of_keras;
      for (const nlohmann::json& weight : layer[1]) {
        of_keras.emplace_back(weight[1].get<std::vector<std::int64_t>>());
      }
      CHECK(shapes[of_layer] == of_keras);
    }
    const std::string content = read_text_file(path);
    for (const char* model : {"stem", "downsampling_block_0", "downsampling_block_2"}) {
      const std::string group = concat("convnext_tiny_", model);
      CHECK(content.find(path.string().ends_with(".weights.h5") ? "sequential_3" : group) !=
            std::string::npos);
    }
  }
}

TEST_CASE("the name of an exported file is that of its format") {
  CHECK_NOTHROW(check_export_path("keras_h5", "x.weights.h5", false));
  CHECK_NOTHROW(check_export_path("onnx", "x.model", false));
  CHECK_THROWS_WITH_AS(check_export_path("onnx", "x.h5", false),
                       doctest::Contains("named like a file of --format keras_h5"), ConfigError);
  CHECK_THROWS_WITH_AS(check_export_path("keras_h5", "x.keras", false),
                       doctest::Contains("name its weights FILE.h5 or FILE.weights.h5"),
                       ConfigError);
}

TEST_CASE("EfficientNet is exported with the Normalization layer that Keras's model has") {
  const TemporaryFolder folder;
  for (const bool keras3 : {false, true}) {
    CAPTURE(keras3);
    const Path path = folder.path() / (keras3 ? "x.weights.h5" : "x.h5");
    config::Config config = test::config_of(
        concat("{backbone: efficientnet_b0, head: [global_average_pool, dense: 3], weights: \"",
               path.string(), "\"}"));
    config.data.preprocess.reset();
    config.data.normalize = config::Normalize{0.5 / 255, {0.1, 0.2, 0.3}, {0.5, 1, 2}, false};
    const graph::Graph graph =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    const std::vector<Tensor> tensors = counted(graph);
    export_keras_h5(graph, config.model, tensors, path);
    std::map<std::string, std::vector<float>> values;
    for (const Tensor& tensor : checkpoint::read_weights(path)) values[tensor.name] = tensor.values;
    const auto of = [&](const char* name, const char* number) {
      return values.at(concat("normalization/", keras3 ? number : name));
    };
    // (x / 255 - 0.2) / 1 is (x * 0.5 / 255 - 0.1) / 0.5.
    const std::vector<float> mean = of("mean", "0"), variance = of("variance", "1");
    REQUIRE(mean.size() == 3);
    REQUIRE(variance.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(mean[i] == doctest::Approx(std::array{0.2, 0.4, 0.6}[i]));
      CHECK(variance[i] == doctest::Approx(std::array{1, 4, 16}[i]));
    }
    CHECK(of("count", "2") == std::vector<float>{0});
    CHECK(keras_note(graph, config.model).text.starts_with("load it into EfficientNetB0(weights="));
    // Which is no weight of ours.
    const Import import = import_weights(graph, config.model);
    CHECK(import.report.extra.empty());
    CHECK(checkpoint::sha256_of(import.tensors) == checkpoint::sha256_of(tensors));
    // Unless it does something else.
    config.data.normalize->mean[1] = 0.21;
    const graph::Graph changed =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    CHECK(import_weights(changed, config.model).report.extra.size() == 3);
    // Variances that are the deviations, as Keras has them in front of one more Rescaling layer.
    config.data.normalize->mean[1] = 0.2;
    config.data.normalize->std = {0.5, 2, 8};
    const graph::Graph rescaled =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    CHECK(import_weights(rescaled, config.model).report.extra.empty());
  }
  const Model other = model_of(folder.path() / "y.h5");
  CHECK(keras_note(other.graph, other.config.model).text.empty());
}

TEST_CASE("exports take the weight average in place of the parameter") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.safetensors";
  const Model model = model_of(path);
  std::vector<Tensor> tensors = counted(model.graph);
  tensors.push_back({"last/bias/average", {3}, {7, 8, 9}});
  export_safetensors(model.graph, tensors, path);
  for (const Tensor& tensor : checkpoint::read_weights(path)) {
    if (tensor.name == "last/bias") CHECK(tensor.values == std::vector<float>{7, 8, 9});
    CHECK(tensor.name != "last/bias/average");
  }
  tensors.erase(tensors.begin());
  CHECK_THROWS_WITH_AS(export_safetensors(model.graph, tensors, path),
                       doctest::Contains("first_conv/kernel"), DataError);
}

TEST_CASE("torchvision's VGG16 is renamed and transposed") {
  std::vector<Tensor> file{{"features.2.weight", {2, 1, 1, 3}, {1, 2, 3, 4, 5, 6}},
                           {"features.28.bias", {2}, {1, 2}},
                           {"classifier.3.weight", {2, 3}, {1, 2, 3, 4, 5, 6}}};
  // Two channels of 7x7 pixels, one output: element c * 49 + p goes to p * 2 + c.
  Tensor first{"classifier.0.weight", {1, 98}, {}};
  for (int i = 0; i < 98; ++i) first.values.push_back(static_cast<float>(i));
  file.push_back(first);
  const auto renamed = from_torchvision(config::Backbone::Name::kVgg16, file);
  REQUIRE(renamed.size() == 4);
  CHECK(renamed[0].name == "block1_conv2/kernel");
  CHECK(renamed[0].shape == Shape{1, 3, 1, 2});
  CHECK(renamed[0].values == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(renamed[1].name == "block5_conv3/bias");
  CHECK(renamed[2].name == "fc2/kernel");
  CHECK(renamed[2].values == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(renamed[3].name == "fc1/kernel");
  CHECK(renamed[3].values[0] == 0);
  CHECK(renamed[3].values[1] == 49);
  CHECK(renamed[3].values[2] == 1);
}

namespace {

// A state dict of a ResNet of torchvision, whose stem is there from the start.
struct StateDict {
  std::vector<Tensor> file;

  StateDict() {
    add("conv1.weight", {64, 3, 7, 7});
    norm("bn1", 64);
  }
  void add(const std::string& name, const Shape& shape) {
    file.push_back(
        {name, shape, std::vector<float>(static_cast<std::size_t>(shape.elements()), 0.5f)});
  }
  void norm(const std::string& name, std::int64_t n) {
    for (const char* suffix : {".weight", ".bias", ".running_mean", ".running_var"}) {
      add(name + suffix, {n});
    }
    add(name + ".num_batches_tracked", {});
  }
};

}  // namespace

TEST_CASE("a whole state dict of torchvision's ResNet50 fills Keras's network") {
  const auto config =
      test::config_of("{backbone: {name: resnet50, include_top: true, weights: w}}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 10), 1);
  StateDict dict;
  const std::int64_t widths[] = {64, 128, 256, 512};
  const int blocks[] = {3, 4, 6, 3};
  std::int64_t in = 64;
  for (int l = 0; l < 4; ++l) {
    const std::int64_t w = widths[l];
    for (int b = 0; b < blocks[l]; ++b) {
      const std::string p = concat("layer", l + 1, '.', b, '.');
      dict.add(p + "conv1.weight", {w, in, 1, 1});
      dict.add(p + "conv2.weight", {w, w, 3, 3});
      dict.add(p + "conv3.weight", {4 * w, w, 1, 1});
      dict.norm(p + "bn1", w);
      dict.norm(p + "bn2", w);
      dict.norm(p + "bn3", 4 * w);
      if (b == 0) dict.add(p + "downsample.0.weight", {4 * w, in, 1, 1});
      if (b == 0) dict.norm(p + "downsample.1", 4 * w);
      in = 4 * w;
    }
  }
  dict.add("fc.weight", {10, 2048});
  dict.add("fc.bias", {10});
  const Import import =
      match_weights(graph, from_torchvision(config::Backbone::Name::kResNet50, dict.file), {});
  CHECK(import.report.complete());
  CHECK(import.report.extra.empty());
  CHECK(import.report.loaded.size() == 53 * 2 + 53 * 4 + 2);
}

TEST_CASE("ConvNeXt's dense layers and nameless factors find their places") {
  const auto config = test::config_of(
      "{backbone: {name: convnext_tiny, weights: w}, head: [global_average_pool, dense: 2]}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 2), 1);
  const std::string block = "convnext_tiny_stage_0_block_1_";
  const Import import = match_weights(
      graph,
      {{block + "layer_scale/" + block + "layer_scale/Variable_1", {96}, std::vector<float>(96, 2)},
       {block + "pointwise_conv_1/kernel", {96, 384}, std::vector<float>(96 * 384, 3)}},
      {"*"});
  CHECK(import.report.loaded ==
        std::vector<std::string>{block + "pointwise_conv_1/kernel", block + "layer_scale/gamma"});
  CHECK(import.report.extra.empty());
}

TEST_CASE("a whole state dict of torchvision's ResNet18 keeps its names") {
  const auto config =
      test::config_of("{backbone: {name: resnet18, include_top: true, weights: w}}");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 10), 1);
  StateDict dict;
  for (int l = 0; l < 4; ++l) {
    const std::int64_t w = std::int64_t{64} << l, in = l == 0 ? w : w / 2;
    for (int b = 0; b < 2; ++b) {
      const std::string p = concat("layer", l + 1, '.', b, '.');
      dict.add(p + "conv1.weight", {w, b == 0 ? in : w, 3, 3});
      dict.add(p + "conv2.weight", {w, w, 3, 3});
      dict.norm(p + "bn1", w);
      dict.norm(p + "bn2", w);
      if (b == 0 && l > 0) dict.add(p + "downsample.0.weight", {w, in, 1, 1});
      if (b == 0 && l > 0) dict.norm(p + "downsample.1", w);
    }
  }
  dict.add("fc.weight", {10, 512});
  dict.add("fc.bias", {10});
  const Import import =
      match_weights(graph, from_torchvision(config::Backbone::Name::kResNet18, dict.file), {});
  CHECK(import.report.complete());
  CHECK(import.report.extra.empty());
  CHECK(import.report.loaded.size() == 20 + 20 * 4 + 2);
}

TEST_CASE("the real MobileNetV2 of Keras loads whole") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  if (shared == nullptr) TRAINER_SKIP("TRAINER_SHARED_DATA is not set");
  const std::string path =
      std::string(shared) +
      "/weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5";
  const auto config = test::config_of("{backbone: {name: mobilenet_v2, weights: \"" + path +
                                      "\"}, head: [global_average_pool, dense: 2]}");
  const auto graph = build_model(config.model, config.data, test::sample({224, 224, 3}, 2), 1);
  const Import import = import_weights(graph, config.model);
  CHECK(import.report.loaded.size() == 260);
  CHECK(import.report.line() ==
        path + ": 260 tensors loaded; 2 of the model left as initialised, 0 of the file unused");
  CHECK(import.report.missing.empty());
  CHECK(import.report.extra.empty());
  std::size_t numbers = 0;
  for (const Tensor& tensor : import.tensors) numbers += tensor.values.size();
  CHECK(numbers == 2257984);
}

}  // namespace trainer::model
