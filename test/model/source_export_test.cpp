// What is exported for the library of a backbone, read again. The names, sizes and ranks of the
// libraries' tensors are those of test/keras/make_pytorch_features.py.
#include "model/files/source_export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "config/source_names.h"
#include "model/files/export.h"
#include "model/files/import.h"
#include "model/files/pytorch.h"
#include "models.h"
#include "support/source_files.h"

namespace trainer::model {
namespace {

using checkpoint::Tensor;
using nlohmann::json;

const json& library_fixture() {
  static const json content =
      json::parse(std::ifstream(test::source_file("test/keras/backbones/pytorch.json")));
  return content;
}

bool is_unused(const std::string& name) {
  return name.ends_with("num_batches_tracked") || name.ends_with("mask_token");
}

// Checks that the state dict has the tensors of the library.
void check_tensors(const std::vector<Tensor>& state, const json& c) {
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : state) {
    if (!is_unused(tensor.name)) by_name[tensor.name] = &tensor;
    CHECK(tensor.is_integer == tensor.name.ends_with("num_batches_tracked"));
  }
  std::string ranks;
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  for (const auto& [name, tensor] : by_name) {
    ranks += static_cast<char>('0' + tensor->shape.rank());
    for (const char each : concat(name, ' ', tensor->shape.elements(), '\n')) {
      digest = (digest ^ static_cast<unsigned char>(each)) * 0x100000001b3;
    }
  }
  CHECK(ranks == c["ranks"].get<std::string>());
  CHECK(digest == c["tensors"].get<std::uint64_t>());
}

// A network of the fixture, which takes its weights from a file.
struct LibraryModel {
  explicit LibraryModel(const std::string& name, const Path& file = "w")
      : config(test::build_config(concat("{backbone: {name: ", name.substr(0, name.find(' ')),
                                         ", include_top: true, weights: '", file.string(),
                                         "', variant: ", name.substr(name.find(' ') + 1), "}}"))) {
    const json& c = library_fixture()[name];
    const json& image = c.contains("file_image") ? c["file_image"] : library_fixture()["image"];
    sample =
        test::sample(Shape(image.get<std::vector<std::int64_t>>()), c["count"].get<std::int64_t>());
    graph = build_model(config.model, config.data, sample, 1);
  }

  config::Config config;
  SampleSpec sample;
  graph::Graph graph;
};

// A model of images of 32 x 32 pixels, and its parameters as numbers.
struct Trained {
  explicit Trained(const std::string& text, const std::string& data = "", std::int64_t side = 32)
      : config(test::build_config(text, data)),
        sample(test::sample({side, side, 3}, 3)),
        tensors(counted(build_model(config.model, config.data, sample, 1))) {}

  config::Config config;
  SampleSpec sample;
  std::vector<Tensor> tensors;
};

std::string describe_failure(const Trained& model, bool for_timm = false) {
  const TemporaryFolder folder;
  try {
    (for_timm ? export_timm : export_torch)(model.config, model.sample, model.tensors,
                                            folder.path() / "x", {});
  } catch (const ConfigError& error) {
    CHECK(std::filesystem::is_empty(folder.path()));
    return error.what();
  }
  return "";
}

const std::string kLinearHead = ", head: [global_average_pool, dropout: 0.5, dense: 3]}";

}  // namespace

TEST_CASE("to_pytorch gives the names, sizes and ranks of every library's tensors") {
  for (const auto& [name, c] : library_fixture().items()) {
    if (!c.contains("ranks")) continue;
    CAPTURE(name);
    const LibraryModel library(name);
    std::vector<Tensor> shapes;
    for (const graph::Value& value : library.graph.values) {
      if (graph::is_persistent(value.role)) shapes.push_back({value.name, value.shape, {}});
    }
    const std::int64_t norms =
        std::ranges::count(library.graph.layers, "BatchNormalization", &graph::LayerInfo::kind);
    const config::Backbone& backbone = *library.config.model.backbone;
    shapes = to_pytorch(library.graph, backbone, std::move(shapes));
    config::use_saved_names(backbone, shapes);
    check_tensors(shapes, c);
    CHECK(std::ranges::count_if(shapes, &Tensor::is_integer) == norms);
    // Only transformers keeps the token of masked patches.
    CHECK(std::ranges::count(shapes, "dinov2.embeddings.mask_token", &Tensor::name) ==
          (name == "dinov2_small transformers" ? 1 : 0));
  }
}

TEST_CASE("export_torch gives a library back the tensors of its file, bit by bit") {
  for (const std::string name :
       {"vit_tiny_patch16 timm", "vit_tiny_patch16 transformers", "mobilenet_v2 torchvision",
        "mobilenet_v3_small torchvision", "mobilenet_v3_small timm", "efficientnet_b0 timm_tf",
        "densenet121 torchvision", "resnet20_cifar torchvision", "regnet_y_400mf timm",
        "convnextv2_atto timm", "convnextv2_atto transformers"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const Path file = folder.path() / "of_library.safetensors", back = folder.path() / "back";
    const LibraryModel library(name, file);
    const std::vector<Tensor> tensors = counted(library.graph);
    export_torch(library.config, library.sample, tensors, file);
    check_tensors(checkpoint::read_safetensors(file).tensors, library_fixture()[name]);
    const Import import = import_weights(library.graph, library.config.model);
    CHECK(import.report.extra.empty());
    CHECK(checkpoint::sha256_of(import.tensors) == checkpoint::sha256_of(tensors));
    export_torch(library.config, library.sample, import.tensors, back);
    CHECK(read_file(back) == read_file(file));
  }
}

TEST_CASE("to_pytorch: the classifier of VGG16 has the layouts of torchvision and timm") {
  struct Case {
    const char *variant, *layer, *second;
    Shape first_shape, second_shape;
  };
  for (const Case& c :
       {Case{"torchvision", "classifier.0", "classifier.3", {4096, 25088}, {4096, 4096}},
        Case{"timm", "pre_logits.fc1", "pre_logits.fc2", {4096, 512, 7, 7}, {4096, 4096, 1, 1}}}) {
    CAPTURE(c.variant);
    const std::string layer = c.layer, second = c.second;
    const config::Config config = test::build_config(
        concat("{backbone: {name: vgg16, include_top: true, variant: ", c.variant, "}}"));
    const auto build = [&](std::int64_t side) {
      return build_model(config.model, config.data, test::sample({side, side, 3}, 3), 1);
    };
    const std::vector<Tensor> state = to_pytorch(
        build(224), *config.model.backbone,
        {{layer + "/kernel", {25088, 4096}, {}}, {second + "/kernel", {4096, 4096}, {}}});
    CHECK(state[0].name == layer + ".weight");
    CHECK(state[0].shape == c.first_shape);
    CHECK(state[1].shape == c.second_shape);
    if (c.first_shape.rank() == 4) continue;
    // Four pixels of a smaller image show the order.
    const graph::Graph graph = build(64);
    std::vector<float> values(4096 * 2048);
    std::iota(values.begin(), values.end(), 0.0F);
    std::vector<Tensor> kernel{{layer + "/kernel", {2048, 4096}, values}};
    kernel = to_pytorch(graph, *config.model.backbone, std::move(kernel));
    CHECK(kernel[0].values[1] == 4096 * 512);  // the next pixel of the first channel
    CHECK(from_pytorch(graph, std::move(kernel))[0].values == values);
  }
}

TEST_CASE("export_torch: a trained head of one linear layer is the classifier of the library") {
  struct Case {
    const char *backbone, *kernel;
    Shape shape;
  };
  const Case cases[] = {{"resnet18, variant: torchvision", "fc.weight", {3, 512}},
                        {"mobilenet_v2, variant: torchvision", "classifier.1.weight", {3, 1280}},
                        {"densenet121, variant: torchvision", "classifier.weight", {3, 1024}},
                        {"efficientnet_b0, variant: timm_tf", "classifier.weight", {3, 1280}},
                        {"regnet_y_400mf, variant: timm", "head.fc.weight", {3, 440}},
                        {"resnet18, variant: transformers", "classifier.1.weight", {3, 512}}};
  const TemporaryFolder folder;
  const Path path = folder.path() / "x.safetensors";
  for (const Case& c : cases) {
    CAPTURE(c.backbone);
    Trained model(concat("{backbone: {name: ", c.backbone, ", freeze: '[:-2]'}", kLinearHead));
    // An average of weights is exported in place of its parameter.
    Tensor& bias = model.tensors.back();
    REQUIRE(bias.name == "dense/bias");
    model.tensors.push_back({bias.name + "/average", bias.shape, {7, 8, 9}});
    export_torch(model.config, model.sample, model.tensors, path, {"a", "b", "c"});
    const checkpoint::WeightFile file = checkpoint::read_weights(path);
    CHECK(file.classes == std::vector<std::string>{"a", "b", "c"});
    const std::string kernel = c.kernel;
    const std::string bias_name = kernel.substr(0, kernel.rfind('.')) + ".bias";
    const auto find = [&](const std::string& name) {
      const auto found = std::ranges::find(file.tensors, name, &Tensor::name);
      REQUIRE(found != file.tensors.end());
      return *found;
    };
    CHECK(find(kernel).shape == c.shape);
    CHECK(find(bias_name).values == std::vector<float>{7, 8, 9});
  }
}

TEST_CASE("export_torch: the error for another network names its first layer that differs") {
  const auto fails = [](const std::string& model, const std::string& text, bool for_timm = false) {
    CAPTURE(model);
    const std::string message = describe_failure(Trained(model), for_timm);
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
  };
  const std::string resnet = "{backbone: {name: resnet18, variant: torchvision}, head: [";
  fails(resnet + "global_average_pool, {dense: {units: 8, name: hidden}}, dense: 3]}",
        "hidden: this layer is not one of torchvision.models.resnet18, which has fc here; "
        "--format torch needs the pooling");
  fails(resnet + "global_average_pool, {dense: {units: 3, activation: relu, name: last}}]}",
        "last: this layer is not one of torchvision.models.resnet18, which has loss here");
  fails(resnet + "global_average_pool, {dense: {units: 3, use_bias: false, name: last}}]}",
        "last: this layer");
  fails(resnet + "{global_max_pool: {name: max}}, dense: 3]}", "max: this layer");
  fails(resnet + "global_average_pool, {relu: {name: cut}}, dense: 3]}", "cut: this layer");
  // A head that reads the features of another layer than the last.
  fails(
      "{backbone: {name: resnet18, variant: torchvision}, head: [{global_average_pool: {name: a}}, "
      "{global_average_pool: {name: b, inputs: [layer4.0.out]}}, {add: {name: sum, inputs: [a, "
      "b]}}, "
      "dense: 3]}",
      "b: this layer");
  fails("{backbone: {name: mobilenet_v3_small, variant: timm}" + kLinearHead,
        "dense: this layer is not one of timm.mobilenetv3_small_100, which has conv_head here");
  fails("{backbone: {name: convnext_tiny, variant: timm}" + kLinearHead,
        "head.norm: this layer is not one of timm.convnext_tiny, which has avg_pool here");
  fails("{backbone: {name: vgg16, variant: torchvision, include_top: true}}",
        "the classifier of vgg16 is for images of 224x224, but the model has images of 32x32");
}

TEST_CASE(
    "export: a network of another library is an error with the variants that the format has") {
  CHECK(describe_failure(Trained("{backbone: {name: resnet50}" + kLinearHead))
            .find("--format torch: the model is keras.applications.ResNet50, another network than "
                  "that of the format; train with model.backbone.variant: torchvision or timm or "
                  "transformers") != std::string::npos);
  CHECK(describe_failure(
            Trained("{backbone: {name: efficientnet_b0, variant: torchvision}" + kLinearHead), true)
            .find("variant: timm or timm_tf") != std::string::npos);
  CHECK(describe_failure(Trained("{backbone: {name: resnet20_cifar}" + kLinearHead), true)
            .find("this format has no network of resnet20_cifar") != std::string::npos);
  CHECK(describe_failure(Trained("{layers: [flatten, dense: 3]}"))
            .find("needs a model with model.backbone") != std::string::npos);
  CHECK(describe_failure(Trained("{backbone: {name: resnet18}" + kLinearHead,
                                 "data: {format: synthetic, preprocess: caffe}\n"),
                         true)
            .find("use --format torch") != std::string::npos);
}

TEST_CASE("export_timm describes the network, its classes and its images as timm does") {
  const TemporaryFolder folder;
  const auto export_model = [&](const Trained& model) {
    export_timm(model.config, model.sample, model.tensors, folder.path() / "x",
                {"cat", "Caf\xC3\xA9", "dog"});
    return json::parse(read_text_file(folder.path() / "x/config.json"));
  };
  const std::string images =
      ", preprocess: torch, interpolation: bicubic, fit: crop, crop_fraction: 0.9}\n";
  // timm has torchvision's network.
  json json =
      export_model(Trained("{backbone: {name: resnet18, variant: torchvision}" + kLinearHead,
                           "data: {format: image_folder, path: ., resize: [32, 32]" + images));
  CHECK(json["architecture"] == "resnet18");
  CHECK(json["num_classes"] == 3);
  CHECK(json["label_names"] == json::array({"cat", "Caf\xC3\xA9", "dog"}));
  CHECK(!json.contains("model_args"));
  const nlohmann::json cfg = json["pretrained_cfg"];
  CHECK(cfg["input_size"] == json::array({3, 32, 32}));
  CHECK(cfg["fixed_input_size"] == false);
  CHECK(cfg["interpolation"] == "bicubic");
  CHECK(cfg["crop_mode"] == "center");
  // 32 / 0.9 is 35.6, which is rounded to 36 here, and down by timm.
  CHECK(static_cast<int>(32 / cfg["crop_pct"].get<double>()) == 36);
  CHECK(cfg["mean"] == json::array({0.485, 0.456, 0.406}));
  CHECK(cfg["std"] == json::array({0.229, 0.224, 0.225}));
  CHECK(cfg["num_classes"] == 3);
  CHECK(cfg["first_conv"] == "conv1");
  CHECK(cfg["classifier"] == "fc");
  const std::vector<Tensor> state =
      checkpoint::read_safetensors(folder.path() / "x/model.safetensors").tensors;
  CHECK(std::ranges::count(state, "fc.weight", &Tensor::name) == 1);

  json = export_model(
      Trained("{backbone: {name: vit_tiny_patch16, variant: timm, pooling: avg}, head: [dense: 3]}",
              "data: {format: synthetic, preprocess: tf}\n"));
  CHECK(json["architecture"] == "vit_tiny_patch16_224");
  CHECK(json["model_args"]["global_pool"] == "avg");
  CHECK(json["pretrained_cfg"]["fixed_input_size"] == true);
  CHECK(json["pretrained_cfg"]["crop_mode"] == "squash");
  CHECK(json["pretrained_cfg"]["mean"] == json::array({0.5, 0.5, 0.5}));
  CHECK(json["pretrained_cfg"]["classifier"] == "head");
  CHECK(json["pretrained_cfg"]["first_conv"] == "patch_embed.proj");

  json = export_model(Trained(
      "{backbone: {name: vit_tiny_patch16, variant: timm, pooling: token}, head: [dense: 3]}"));
  CHECK(!json.contains("model_args"));
  json = export_model(
      Trained("{backbone: {name: mobilenet_v2, variant: timm, alpha: 0.5}" + kLinearHead));
  CHECK(json["architecture"] == "mobilenetv2_050");
}

TEST_CASE("find_export_format: torch is a safetensors file and timm a folder") {
  const TemporaryFolder folder;
  CHECK(find_export_format("torch", folder.path() / "x.safetensors", false) == "torch");
  CHECK(find_export_format("timm", folder.path(), false) == "timm");
  CHECK_THROWS_WITH_AS(find_export_format("torch", "x.pth", false),
                       doctest::Contains("name it FILE.safetensors"), ConfigError);
  CHECK_THROWS_WITH_AS(find_export_format("timm", "x.safetensors", false),
                       doctest::Contains("writes a folder"), ConfigError);
  for (const char* file : kTimmFiles) {
    CAPTURE(file);
    write_file_atomic(folder.path() / file, "x");
    CHECK_THROWS_WITH_AS(find_export_format("timm", folder.path(), false),
                         doctest::Contains("exists"), ConfigError);
    CHECK(find_export_format("timm", folder.path(), true) == "timm");
    CHECK_THROWS_AS(find_export_format("timm", folder.path() / file, true), ConfigError);
    std::filesystem::remove(folder.path() / file);
  }
}

}  // namespace trainer::model
