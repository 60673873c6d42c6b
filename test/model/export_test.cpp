// What is exported, read again.
#include "model/export.h"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/weights.h"
#include "model/import.h"
#include "model/keras_normalization.h"
#include "models.h"
#include "support/source_files.h"

namespace trainer::model {

using checkpoint::Tensor;

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

TEST_CASE("remove_normalization: the tensors of one layer, and no others of like or long names") {
  config::Config config =
      test::config_of("{backbone: efficientnet_b0, head: [global_average_pool, dense: 3]}");
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

}  // namespace trainer::model
