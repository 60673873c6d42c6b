// What is exported, read again.
#include "model/files/export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/keras.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "config/rule.h"
#include "config/values.h"
#include "model/build_model.h"
#include "model/files/import.h"
#include "model/files/keras_normalization.h"
#include "model/files/keras_order.h"
#include "models.h"
#include "support/source_files.h"

namespace trainer::model {

using checkpoint::Tensor;

TEST_CASE("import_weights reads an exported file bit by bit") {
  const TemporaryFolder folder;
  for (const char* name : {"x.h5", "x.weights.h5", "x.safetensors"}) {
    CAPTURE(name);
    const Path path = folder.path() / name;
    const Model model = make_model(path);
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

TEST_CASE("export: class names are read from every file of weights in the order of the outputs") {
  const TemporaryFolder folder;
  const std::vector<std::string> classes{"0", "1", "10", "Caf\xC3\xA9 au lait", "2"};
  for (const char* name : {"x.h5", "x.weights.h5", "x.safetensors"}) {
    CAPTURE(name);
    const Path path = folder.path() / name;
    const Model model = make_model(path);
    const std::vector<Tensor> tensors = counted(model.graph);
    for (const std::vector<std::string>& names : {classes, std::vector<std::string>{}}) {
      if (path.extension() == ".safetensors") {
        export_safetensors(model.graph, tensors, path, names);
      } else {
        export_keras_h5(model.graph, model.config.model, tensors, path, names);
      }
      const checkpoint::WeightFile file = checkpoint::read_weights(path);
      CHECK(file.tensors.size() == tensors.size());
      CHECK(file.classes == names);
      const ImportReport report = import_weights(model.graph, model.config.model).report;
      CHECK(report.classes == names);
      CHECK(report.has_head);
    }
  }
}

TEST_CASE("export_keras_h5: ConvNeXt has the dense layers and inner models of Keras") {
  std::ifstream fixture_file(test::source_file("test/keras/backbones/features.json"));
  const nlohmann::json expected = nlohmann::json::parse(fixture_file)["convnext_tiny"]["layers"];
  const TemporaryFolder folder;
  for (const char* name : {"x.h5", "x.weights.h5"}) {
    CAPTURE(name);
    const Path path = folder.path() / name;
    config::Config config = test::build_config(
        concat("{backbone: convnext_tiny, head: [global_average_pool, dense: 3], weights: \"",
               path.string(), "\"}"));
    const graph::Graph graph =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    const std::vector<Tensor> tensors = counted(graph);
    export_keras_h5(graph, config.model, tensors, path);
    CHECK(checkpoint::sha256_of(import_weights(graph, config.model).tensors) ==
          checkpoint::sha256_of(tensors));
    std::map<std::string, std::vector<Shape>> shapes;
    for (const Tensor& tensor : checkpoint::read_weights(path).tensors) {
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

TEST_CASE("find_export_format: the ending of the file decides without a format") {
  CHECK(find_export_format("", "x.onnx", false) == "onnx");
  CHECK(find_export_format("", "x.safetensors", false) == "safetensors");
  CHECK(find_export_format("", "x.weights.h5", false) == "keras_h5");
  CHECK(find_export_format("onnx", "x.model", false) == "onnx");
  CHECK_THROWS_WITH_AS(find_export_format("", "x.model", false),
                       doctest::Contains("or give --format"), ConfigError);
}

TEST_CASE("find_export_format rejects a name of another format") {
  CHECK_NOTHROW(find_export_format("keras_h5", "x.weights.h5", false));
  CHECK_NOTHROW(find_export_format("onnx", "x.model", false));
  CHECK_THROWS_WITH_AS(find_export_format("onnx", "x.h5", false),
                       doctest::Contains("named like a file of --format keras_h5"), ConfigError);
  CHECK_THROWS_WITH_AS(find_export_format("keras_h5", "x.keras", false),
                       doctest::Contains("name its weights FILE.h5 or FILE.weights.h5"),
                       ConfigError);
}

TEST_CASE("export_keras_h5: EfficientNet has the Normalization layer of Keras's model") {
  const TemporaryFolder folder;
  for (const bool keras3 : {false, true}) {
    CAPTURE(keras3);
    const Path path = folder.path() / (keras3 ? "x.weights.h5" : "x.h5");
    config::Config config = test::build_config(
        concat("{backbone: efficientnet_b0, head: [global_average_pool, dense: 3], weights: \"",
               path.string(), "\"}"));
    config.data.preprocess.reset();
    config.data.normalize = config::Normalize{0.5 / 255, {0.1, 0.2, 0.3}, {0.5, 1, 2}, false};
    const graph::Graph graph =
        build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
    const std::vector<Tensor> tensors = counted(graph);
    export_keras_h5(graph, config.model, tensors, path);
    std::map<std::string, std::vector<float>> values;
    for (const Tensor& tensor : checkpoint::read_weights(path).tensors)
      values[tensor.name] = tensor.values;
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
    // This tensor is not a weight of ours.
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
  const Model other = make_model(folder.path() / "y.h5");
  CHECK(keras_note(other.graph, other.config.model).text.empty());
}

// Models with branches, and the order of `layers` that Keras 3.15 has for them
// (test/keras/compare_order.py).
const std::string kEnd = ", {global_average_pool: {name: gap}}, {dense: {units: 3, name: last}}]";
std::string conv(const std::string& name, const std::string& more = "") {
  return "{conv: {filters: 4, kernel_size: 3, padding: same, name: " + name + more + "}}";
}
std::vector<std::pair<std::string, std::vector<std::string>>> branches() {
  return {
      {"[" + conv("stem") + ", {residual: {name: add, layers: [" + conv("a1") + ", " + conv("a2") +
           "], shortcut: [" + conv("s1") + ", " + conv("s2") + "], activation: linear}}" + kEnd,
       {"input", "stem", "a1", "s1", "a2", "s2", "add", "gap", "last"}},
      {"[" + conv("stem") + ", " + conv("short") + ", " + conv("long1", ", inputs: [stem]") + ", " +
           conv("long2") + ", {concatenate: {name: cat, inputs: [short, long2]}}" + kEnd,
       {"input", "stem", "long1", "short", "long2", "cat", "gap", "last"}},
      {"[" + conv("stem") + ", {residual: {name: add, layers: [" + conv("a1") +
           ", {batch_norm: {name: abn1}}, {activation: {function: relu, name: ar}}, " + conv("a2") +
           ", {batch_norm: {name: abn2}}], shortcut: [{conv: {filters: 4, kernel_size: 1, "
           "name: s1}}, {batch_norm: {name: sbn}}], activation: relu}}" +
           kEnd,
       {"input", "stem", "a1", "abn1", "ar", "a2", "s1", "abn2", "sbn", "add", "add_activation",
        "gap", "last"}},
      {"[" + conv("a") + ", " + conv("b", ", inputs: [input]") + ", " + conv("d", ", inputs: [a]") +
           ", {add: {name: e, inputs: [b, a]}}, {concatenate: {name: f, inputs: [e, d, b]}}, " +
           conv("g") + ", {add: {name: h, inputs: [g, d]}}" + kEnd,
       {"input", "b", "a", "e", "d", "f", "g", "h", "gap", "last"}}};
}

TEST_CASE("keras_order: models with branches have the order of Keras's model.layers") {
  for (const auto& [layers, order] : branches()) {
    CAPTURE(layers);
    const Model model = make_model("", layers);
    std::vector<std::string> found;
    for (const graph::LayerInfo* layer : keras_order(model.graph)) found.push_back(layer->name);
    CHECK(found == order);
  }
}

TEST_CASE("keras_order keeps the order of the layers of a chain and of every backbone of Keras") {
  const auto check = [](const graph::Graph& graph) {
    std::vector<std::string> found, expected;
    for (const graph::LayerInfo* layer : keras_order(graph)) found.push_back(layer->name);
    for (const graph::LayerInfo& layer : graph.layers) expected.push_back(layer.name);
    CHECK(found == expected);
  };
  check(make_model("").graph);
  for (const std::string_view name : enum_words<config::Backbone::Name>()) {
    CAPTURE(name);
    const config::Config config = test::build_config(
        concat("{backbone: ", name, ", head: [global_average_pool, {dense: {units: 3}}]}"));
    if (config.model.backbone->variant != config::Backbone::Variant::kKeras) continue;
    check(build_model(config.model, config.data, test::sample({64, 64, 3}, 3), 1));
  }
}

TEST_CASE("export_keras_h5: layers of a model with branches are in Keras's order in both layouts") {
  const TemporaryFolder folder;
  for (const auto& [layers, order] : branches()) {
    CAPTURE(layers);
    for (const char* name : {"x.h5", "x.weights.h5"}) {
      CAPTURE(name);
      const Path path = folder.path() / name;
      const Model model = make_model(path, layers);
      const std::vector<Tensor> tensors = counted(model.graph);
      export_keras_h5(model.graph, model.config.model, tensors, path);
      const std::string_view kind = std::string_view(name) == "x.h5" ? "" : "conv2d";
      std::vector<std::string> found, expected;  // layers with weights; of Keras 3, one class's
      for (const Tensor& tensor : checkpoint::read_weights(path).tensors) {
        const std::string layer = tensor.name.substr(0, tensor.name.find('/'));
        if (found.empty() || found.back() != layer) found.push_back(layer);
      }
      for (const std::string& layer : order) {
        const auto at = std::find(found.begin(), found.end(), layer);
        if (at != found.end()) expected.push_back(layer);
      }
      if (!kind.empty()) {  // groups of another class lie elsewhere in the file
        const auto is_other = [](const std::string& layer) {
          return layer.find("bn") != std::string::npos || layer == "last";
        };
        std::erase_if(found, is_other);
        std::erase_if(expected, is_other);
      }
      CHECK(found == expected);
      CHECK(found.size() > 3);
      const Import import = import_weights(model.graph, model.config.model);
      CHECK(import.report.by_position.empty());
      CHECK(checkpoint::sha256_of(import.tensors) == checkpoint::sha256_of(tensors));
    }
  }
}

TEST_CASE("import_weights matches layers of a later model of a Keras session by position") {
  const TemporaryFolder folder;
  // More than ten of a class, whose numbers sort otherwise as texts.
  std::string layers = "[";
  for (int i = 0; i < 12; ++i) layers += "{conv: {filters: 3, padding: same}}, ";
  layers += "batch_norm, global_average_pool, {dense: 3}]";
  // Keras names the layers of its second and third models of such layers in this way.
  for (const int offset : {2, 1, 9}) {
    for (const char* name : {"x.h5", "x.weights.h5"}) {
      CAPTURE(offset);
      CAPTURE(name);
      const Path path = folder.path() / name;
      Model model = make_model(path, layers);
      const std::vector<Tensor> tensors = counted(model.graph);
      Model later = model;
      const auto renamed = [&](std::string text) {
        const std::string layer = text.substr(0, text.find('/')), rest = text.substr(layer.size());
        if (layer == "input" || layer == "global_average_pooling2d") return text;
        const std::string base(checkpoint::without_keras_number(layer));
        const int number = layer == base ? 0 : std::stoi(layer.substr(base.size() + 1));
        return concat(base, "_", number + offset, rest);
      };
      std::vector<Tensor> others = tensors;
      for (Tensor& tensor : others) tensor.name = renamed(tensor.name);
      for (graph::Value& value : later.graph.values) value.name = renamed(value.name);
      for (graph::LayerInfo& layer : later.graph.layers) {
        layer.name = renamed(layer.name);
        for (std::string& input : layer.inputs) input = renamed(input);
      }
      export_keras_h5(later.graph, later.config.model, others, path);
      const Import import = import_weights(model.graph, model.config.model);
      CHECK(checkpoint::sha256_of(import.tensors) == checkpoint::sha256_of(tensors));
      CHECK(import.report.extra.empty());
      CHECK(import.report.by_position.size() == 14);
      const std::vector<Notice> notices = import.report.notices();
      REQUIRE(notices.size() == 1);
      CHECK(notices[0].kind == Notice::Kind::kNote);
      CHECK(notices[0].text.find(concat("conv2d_", offset + 1, " is conv2d_1")) !=
            std::string::npos);
      // Another number of layers is not matched.
      const Model larger =
          make_model(path, "[{conv: {filters: 3, padding: same}}, " + layers.substr(1));
      CHECK_THROWS_AS(import_weights(larger.graph, larger.config.model), DataError);
    }
  }
}

TEST_CASE(
    "remove_normalization removes the tensors of one layer, none with similar or long names") {
  config::Config config =
      test::build_config("{backbone: efficientnet_b0, head: [global_average_pool, dense: 3]}");
  const graph::Graph graph =
      build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  const std::vector<float> mean = keras_preprocessing(graph)[1].weights[0].second.values;
  const std::vector<float> variance = keras_preprocessing(graph)[1].weights[1].second.values;
  const std::string digits(100'000, '1');
  std::vector<Tensor> file{{"normalization/mean", {3}, mean},
                           {"normalization_1/1", {3}, variance},
                           {"normalization_" + digits + "/2", {}, {0}},
                           {"normalization/count", {}, {0}}};
  const std::vector<std::string> others{"normalization/3",
                                        "normalization_/0",
                                        "normalization_a/0",
                                        "normalization1/0",
                                        "batch_normalization/mean",
                                        "normalization/mean/0",
                                        "normalization",
                                        "normalization/means",
                                        "normalization_" + digits,
                                        "normalization_" + digits + "/" + digits};
  for (const std::string& name : others) file.push_back({name, {1}, {7}});
  remove_normalization(file, graph);
  std::vector<std::string> left;
  for (const Tensor& tensor : file) left.push_back(tensor.name);
  CHECK(left == others);
}

TEST_CASE("export_safetensors writes the weight average in place of the parameter") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.safetensors";
  const Model model = make_model(path);
  std::vector<Tensor> tensors = counted(model.graph);
  tensors.push_back({"last/bias/average", {3}, {7, 8, 9}});
  export_safetensors(model.graph, tensors, path);
  for (const Tensor& tensor : checkpoint::read_weights(path).tensors) {
    if (tensor.name == "last/bias") CHECK(tensor.values == std::vector<float>{7, 8, 9});
    CHECK(tensor.name != "last/bias/average");
  }
  tensors.erase(tensors.begin());
  CHECK_THROWS_WITH_AS(export_safetensors(model.graph, tensors, path),
                       doctest::Contains("first_conv/kernel"), DataError);
}

}  // namespace trainer::model
