#include "model/files/import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/formats/npy.h"
#include "base/formats/zip.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "model/build_model.h"
#include "models.h"
#include "support/model.h"
#include "support/skip.h"
#include "support/source_files.h"
#include "support/state_dict.h"
#include "support/zip_writer.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;
using namespace std::string_literals;

std::string fixture(const std::string& name) {
  return test::source_file("test/keras/weights/") + name;
}

std::vector<std::string> list_layer_names(const graph::Graph& graph) {
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
  for (const std::string& name : list_layer_names(model.graph)) {
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

std::string catch_message(const Model& model) {
  try {
    import_weights(model.graph, model.config.model);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("import_weights loads all weights of the model from files of Keras in each format") {
  for (const char* file : {"applications.h5", "keras3.keras", "nested.h5", "arrays.npz"}) {
    CAPTURE(file);
    const Model model = make_model(fixture(file));
    const Import import = import_weights(model.graph, model.config.model);
    check_values(model, import.tensors);
    CHECK(import.report.loaded.size() == 12);
    CHECK(import.report.complete());
    // nested.h5 has a layer more than the model.
    CHECK(import.report.extra.size() == (std::string(file) == "nested.h5" ? 2 : 0));
  }
}

TEST_CASE("import_weights loads all weights from the .weights.h5 file of a .keras archive") {
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
  const Model model = make_model(path);
  check_values(model, import_weights(model.graph, model.config.model).tensors);
}

TEST_CASE("import_weights: the error of missing, extra and wrongly shaped tensors names them") {
  const std::string layers = R"([{conv: {filters: 5, name: first_conv}}, {global_average_pool: {}},
                                 {dense: {units: 3, name: other}}])";
  const std::string found = catch_message(make_model(fixture("keras3.keras"), layers));
  CHECK(found.find("0 tensors loaded, 2 missing, 2 of another shape") != std::string::npos);
  CHECK(found.find("missing:\n    other/kernel\n    other/bias") != std::string::npos);
  CHECK(found.find("first_conv/kernel: [3, 3, 3, 4] in the file, [3, 3, 3, 5] in the model") !=
        std::string::npos);
  CHECK(found.find("first_bn/0") != std::string::npos);
}

TEST_CASE("import_weights: integers for a weight are an error unless allow_missing covers it") {
  const TemporaryFolder folder;
  const std::string layers = "[{flatten: {}}, {dense: {units: 3, name: last}}]";
  const Model model = make_model(folder.path() / "w.safetensors", layers);
  const std::int64_t inputs = model.graph[model.graph.find("last/kernel")].shape[0];
  const std::vector<float> values(static_cast<std::size_t>(inputs * 3), 7);
  const std::vector<Tensor> file{{"last/kernel", {inputs, 3}, values, true},
                                 {"last/bias", {3}, {1, 2, 3}},
                                 {"steps", {}, {7}, true}};
  test::write_state_dict(folder.path() / "w.safetensors", file);
  const std::string found = catch_message(model);
  CHECK(found.find("of integers in the file, where weights are floating-point numbers:\n"
                   "    last/kernel") != std::string::npos);
  CHECK(found.find("--set 'model.allow_missing=[last]'") != std::string::npos);
  const Model allowed =
      make_model(folder.path() / "w.safetensors", layers, ", allow_missing: [last]");
  const Import import = import_weights(allowed.graph, allowed.config.model);
  CHECK(import.report.loaded == std::vector<std::string>{"last/bias"});
  CHECK(import.report.initialised == std::vector<std::string>{"last/kernel"});
}

TEST_CASE("import_weights reads integers in an .npz file that no layer takes") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.npz";
  const auto array = [](const std::string& type, const std::vector<std::int64_t>& dims,
                        const std::string& data) { return npy_header(type, dims) + data; };
  write_file_atomic(path, test::pack_zip({{"last/bias.npy", array("<f4", {1}, "\0\0\x80\x3f"s)},
                                          {"steps.npy", array("<i8", {}, "\7\0\0\0\0\0\0\0"s)},
                                          {"flag.npy", array("|b1", {1}, "\1"s)}}));
  const std::vector<Tensor> tensors = checkpoint::read_weights(path).tensors;
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].values == std::vector<float>{1});
  CHECK_FALSE(tensors[0].is_integer);
  CHECK(tensors[1].values == std::vector<float>{7});
  CHECK(tensors[1].is_integer);
  CHECK(tensors[2].is_integer);
}

TEST_CASE("import_weights: a short error gives the reason for the weights of another network") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "w.safetensors").string();
  const auto backbone = [&](const std::string& more) {
    return test::build_config("{backbone: {name: mobilenet_v2" + more + "weights: '" + file +
                              "'}, head: [global_average_pool, dense: 3]}");
  };
  const auto whole = backbone(", ").model;
  test::write_state_dict(file, counted(build_model(whole, {}, test::sample({32, 32, 3}, 3), 1)));
  const auto config = backbone(", alpha: 0.5, ");
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  std::string found;
  try {
    import_weights(graph, config.model);
  } catch (const DataError& error) {
    found = error.what();
  }
  CHECK(std::count(found.begin(), found.end(), '\n') < 30);
  CHECK(found.find("\n    and 2") != std::string::npos);
  CHECK(found.find("of another network than MobileNetV2 with alpha: 0.5") != std::string::npos);
}

TEST_CASE(
    "import_weights: missing tensors stay as initialised with allow_missing and are reported") {
  const std::string layers = R"([{conv: {filters: 4, name: first_conv}}, {global_average_pool: {}},
                                 {dense: {units: 3, name: last}}])";
  const Model model = make_model(fixture("arrays.npz"), layers, ", allow_missing: [last]");
  const Import import = import_weights(model.graph, model.config.model);
  CHECK(import.report.loaded ==
        std::vector<std::string>{"first_conv/kernel", "first_conv/bias", "last/bias"});
  CHECK(import.report.initialised == std::vector<std::string>{"last/kernel"});
  CHECK(import.report.line() ==
        fixture("arrays.npz") + ": 3 tensors loaded; 1 of the model left as initialised, " +
            std::to_string(import.report.extra.size()) + " of the file unused");
  CHECK(import.tensors.size() == 3);
}

TEST_CASE(
    "ImportReport::notices has one line per kind of tensor, a note if allow_missing permits it") {
  ImportReport report;
  report.path = "w.h5";
  CHECK(report.notices().empty());
  report.loaded = {"a"};
  report.initialised = {"last/kernel", "last/bias"};
  REQUIRE(report.notices().size() == 1);
  CHECK(report.notices()[0].kind == Notice::Kind::kNote);
  CHECK(report.notices()[0].text ==
        "w.h5: 2 tensors of the model left as initialised, as allow_missing permits: last/kernel, "
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

TEST_CASE("import_weights loads all layers of the best checkpoint of a run folder") {
  const TemporaryFolder folder;
  const Path checkpoints = folder.path() / "checkpoints";
  std::filesystem::create_directories(checkpoints);
  const std::string text =
      "{backbone: {name: mobilenet_v2, alpha: 0.35, weights: nowhere.h5, freeze: all}, head: "
      "[global_average_pool, dense: 3], weights: '" +
      folder.path().string() + "'}";
  const auto config = test::build_config(text);
  const auto graph = build_model(config.model, config.data, test::sample({32, 32, 3}, 3), 1);
  const auto write = [&](const std::string& name, float value, bool slots) {
    std::vector<Tensor> tensors;
    for (const std::string& parameter : list_layer_names(graph)) {
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
  const auto compute_value = [](const Import& import, const std::string& name) {
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
  CHECK(import.report.loaded.size() == list_layer_names(graph).size());
  CHECK(compute_value(import, "Conv1/kernel") == 2);
  CHECK(compute_value(import, "dense/bias") == 2);
  CHECK(compute_value(import, "dense/kernel") == 2.5f);  // the average, as in evaluation
  write("best.safetensors", 3, false);
  import = import_weights(graph, config.model);
  CHECK(compute_value(import, "Conv1/kernel") == 3);
  CHECK(compute_value(import, "dense/kernel") == 3);
  CHECK(import.report.path.find("best.safetensors") != std::string::npos);
  CHECK(missing_weights(config.model, {}).empty());

  const auto gone =
      test::build_config("{backbone: vgg16, head: [flatten, dense: 3], weights: /nowhere/run}");
  CHECK(missing_weights(gone.model, {}).find("no such file or run folder") != std::string::npos);
}

TEST_CASE("import_weights: the error of a missing file has the name of Keras's file and the key") {
  const auto config = test::build_config(
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

TEST_CASE("import_weights prints the command that downloads torchvision's missing file") {
  const auto config = test::build_config(
      "{backbone: {name: resnet18, weights: nowhere.safetensors}, head: [global_average_pool, "
      "dense: 3]}");
  const std::string message = missing_weights(config.model, {{"HOME", "/home/u"}});
  CHECK(message.find("curl --create-dirs -o /home/u/.keras/models/resnet18-f37072fd.pth "
                     "https://download.pytorch.org/models/resnet18-f37072fd.pth") !=
        std::string::npos);
  CHECK(message.find("keras.applications") == std::string::npos);
}

TEST_CASE("check_weights finds the errors of import_weights for each format from the header") {
  const std::string layers = R"([{conv: {filters: 5, name: first_conv}}, {global_average_pool: {}},
                                 {dense: {units: 3, name: other}}])";
  for (const char* file : {"applications.h5", "keras3.keras", "nested.h5", "arrays.npz"}) {
    CAPTURE(file);
    const Model fitting = make_model(fixture(file));
    CHECK_NOTHROW(check_weights(fitting.graph, fitting.config.model));
    const Model other = make_model(fixture(file), layers);
    const std::string expected = catch_message(other);
    REQUIRE(!expected.empty());
    CHECK_THROWS_WITH_AS(check_weights(other.graph, other.config.model), expected.c_str(),
                         DataError);
    CHECK_NOTHROW(check_weights({}, other.config.model));
  }
  const Model missing = make_model("nowhere.h5");
  CHECK_NOTHROW(check_weights(missing.graph, missing.config.model));
  const TemporaryFolder folder;
  write_file_atomic(folder.path() / "w.h5", "layers: [dense]\n");
  CHECK_THROWS_WITH_AS(check_weights({}, make_model(folder.path() / "w.h5").config.model),
                       doctest::Contains("is a text file"), DataError);
}

TEST_CASE("import_weights: the error of a text file or a truncated file has its path") {
  const TemporaryFolder folder;
  const Path path = folder.path() / "w.h5";
  write_file_atomic(path, "layers: [dense]\n");
  CHECK(catch_message(make_model(path)).find("is a text file; expected Keras .h5") !=
        std::string::npos);
  const Bytes whole = read_file(fixture("applications.h5"));
  for (const std::size_t size : {std::size_t{9}, std::size_t{600}, whole.size() / 2}) {
    write_file_atomic(path, std::span(whole).first(size));
    CHECK(catch_message(make_model(path)).find(path.string()) == 0);
  }
}

TEST_CASE("match_weights matches ConvNeXt's dense layers and unnamed layer scales to tensors") {
  const auto config = test::build_config(
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

TEST_CASE("import_weights loads every tensor of the MobileNetV2 file of Keras") {
  const char* shared = std::getenv("TRAINER_SHARED_DATA");
  if (shared == nullptr) TRAINER_SKIP("TRAINER_SHARED_DATA is not set");
  const std::string path =
      std::string(shared) +
      "/weights/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5";
  const auto config = test::build_config("{backbone: {name: mobilenet_v2, weights: \"" + path +
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
