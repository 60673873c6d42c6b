// Which variant of a backbone a config means.
#include "config/variant.h"

#include <doctest/doctest.h>

#include <tuple>

#include "config/pretrained.h"
#include "support.h"
#include "support/state_dict.h"

namespace trainer::config::variant_test {
namespace {

using checkpoint::Tensor;
using Variant = Backbone::Variant;

struct Files {
  TemporaryFolder folder;
  // A file with one tensor of the first block of each network.
  std::string write(const std::string& file, const std::string& tensor) const {
    const Path path = folder.path() / file;
    test::write_state_dict(path, {{tensor, {1}, {1}}});
    return path.string();
  }
  const std::string torch = write("torch.safetensors", "layer1.0.conv1.weight");
  const std::string ours = write("ours.safetensors", "layer1.0.conv1/kernel");
  const std::string keras = write("keras.safetensors", "conv2_block1_1_conv/kernel");
  const std::string nested = write("nested.safetensors", "resnet50/conv2_block1_1_conv/kernel");
  const std::string other = write("other.safetensors", "encoder.0.weight");
};

std::string config_text(const std::string& backbone, const std::string& model = "") {
  return "model: {input: [32, 32, 3], backbone: {" + backbone +
         "}, head: [global_average_pool, dense: 2]" + model +
         "}\ndata: {format: image_folder, path: somewhere}\n" + std::string(kTrain);
}

Config load(const std::string& backbone, const std::string& model = "") {
  return parse(config_text(backbone, model)).config;
}

}  // namespace

TEST_CASE(
    "backbone.variant and its preprocessing follow the names of the file where it is left out") {
  const Files files;
  for (const char* name : {"resnet50", "resnet101"}) {
    for (const std::string& file : {files.torch, files.ours}) {
      CAPTURE(file);
      const Config config = load(concat("name: ", name, ", weights: '", file, "'"));
      CHECK(config.model.backbone->variant == Variant::kTorchvision);
      CHECK(config.data.preprocess == PreprocessPreset::kTorch);
    }
    for (const std::string& file : {files.keras, files.nested}) {
      CAPTURE(file);
      const Config config = load(concat("name: ", name, ", weights: '", file, "'"));
      CHECK(config.model.backbone->variant == Variant::kKeras);
      CHECK(config.data.preprocess == PreprocessPreset::kCaffe);
    }
  }
  const std::string vgg16 = files.write("vgg16.safetensors", "features.0.weight");
  CHECK(load("name: vgg16, weights: '" + vgg16 + "'").model.backbone->variant ==
        Variant::kTorchvision);
  // model.weights comes before backbone.weights.
  const Config both =
      load("name: resnet50, weights: '" + files.keras + "'", ", weights: '" + files.torch + "'");
  CHECK(both.model.backbone->variant == Variant::kTorchvision);
}

TEST_CASE("backbone.variant of ViT follows files of any version of a library, and of base models") {
  const Files files;
  for (const auto& [name, tensor, variant] :
       {std::tuple{"dinov2_small", "encoder.layer.0.attention.attention.query.weight",
                   Variant::kTransformers},
        std::tuple{"dinov2_base", "dinov2.encoder.layer.0.attention.attention.query.weight",
                   Variant::kTransformers},
        std::tuple{"dinov2_small_reg", "encoder.layer.0.attention.attention.query.weight",
                   Variant::kTransformers},
        std::tuple{"vit_base_patch16", "encoder.layer.0.attention.attention.query.weight",
                   Variant::kTransformers},
        std::tuple{"vit_base_patch16", "vit.layers.0.attention.q_proj.weight",
                   Variant::kTransformers},
        std::tuple{"vit_base_patch16", "encoder.layers.encoder_layer_0.ln_1.weight",
                   Variant::kTorchvision},
        std::tuple{"vit_base_patch16", "blocks.0.attn.qkv.weight", Variant::kTimm},
        std::tuple{"dinov2_base_reg", "blocks.0.attn.qkv/kernel", Variant::kTimm}}) {
    CAPTURE(name);
    CAPTURE(tensor);
    const std::string file = files.write("vit.safetensors", tensor);
    const Config config =
        parse("model: {input: [28, 28, 3], backbone: {name: " + std::string(name) +
              ", pooling: token, weights: '" + file +
              "'}, head: [dense: 2]}\ndata: {format: image_folder, path: "
              "somewhere}\n" +
              std::string(kTrain))
            .config;
    CHECK(config.model.backbone->variant == variant);
  }
}

TEST_CASE(
    "backbone.variant is the first of the backbone where it is left out and no file decides") {
  const Files files;
  for (const auto& [name, variant] :
       {std::pair{"resnet18", Variant::kTorchvision}, std::pair{"resnet34", Variant::kTorchvision},
        std::pair{"resnet50", Variant::kKeras}, std::pair{"vgg16", Variant::kKeras},
        std::pair{"densenet121", Variant::kKeras}}) {
    CAPTURE(name);
    CHECK(load(concat("name: ", name)).model.backbone->variant == variant);
    CHECK(load(concat("name: ", name, ", weights: nowhere.h5")).model.backbone->variant == variant);
    CHECK(load(concat("name: ", name, ", weights: '", files.other, "'")).model.backbone->variant ==
          variant);
  }
}

TEST_CASE("backbone.variant: the error of a file of the other variant names the file") {
  const Files files;
  CHECK_THROWS_WITH_AS(
      load("name: resnet50, variant: keras, weights: '" + files.torch + "'"),
      doctest::Contains(concat("model.backbone.variant: is keras, but ", files.torch,
                               " has weights of torchvision's resnet50")
                            .c_str()),
      ConfigError);
  CHECK_THROWS_AS(load("name: resnet50, variant: torchvision, weights: '" + files.keras + "'"),
                  ConfigError);
  CHECK_NOTHROW(load("name: resnet50, variant: torchvision, weights: '" + files.torch + "'"));
  CHECK_NOTHROW(load("name: resnet50, variant: torchvision, weights: '" + files.other + "'"));
}

TEST_CASE("backbone.variant: names that fit networks of different padding are an error") {
  const Files files;
  for (const char* name : {"efficientnet_b0", "mobilenet_v3_large"}) {
    const std::string file = files.write(concat(name, ".safetensors"), "blocks.0.0.conv_dw.weight");
    const std::string backbone = concat("name: ", name, ", weights: '", file, "'");
    CHECK_THROWS_WITH_AS(
        load(backbone),
        doctest::Contains(concat("model.backbone.variant: the names in ", file,
                                 " fit networks that differ in padding and epsilon; set it to "
                                 "timm or timm_tf")
                              .c_str()),
        ConfigError);
    CHECK(load(backbone + ", variant: timm").model.backbone->variant == Variant::kTimm);
    CHECK(load(backbone + ", variant: timm_tf").model.backbone->variant == Variant::kTimmTf);
    CHECK_THROWS_AS(load(backbone + ", variant: keras"), ConfigError);
  }
  // timm's and torchvision's ResNet have the same names and are the same network.
  const std::string resnet = "name: resnet50, weights: '" + files.torch + "'";
  CHECK(load(resnet).model.backbone->variant == Variant::kTorchvision);
  CHECK(load(resnet + ", variant: timm").model.backbone->variant == Variant::kTimm);
}

TEST_CASE("backbone.variant of VGG16 follows the classifier in the file where it is included") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& logits) {
    const Path path = folder.path() / name;
    test::write_state_dict(path, {{"features.0.weight", {1}, {1}}, {logits, {1}, {1}}});
    return "name: vgg16, weights: '" + path.string() + "'";
  };
  const std::string torchvision = write("torchvision.safetensors", "classifier.6.weight");
  const std::string timm = write("timm.safetensors", "head.fc.weight");
  const auto load_top = [](const std::string& backbone) {
    const std::string text = "model: {input: [32, 32, 3], backbone: {include_top: true, " +
                             backbone + "}}\ndata: {format: image_folder, path: somewhere}\n";
    return parse(text + std::string(kTrain)).config.model.backbone->variant;
  };
  CHECK(load_top(torchvision) == Variant::kTorchvision);
  CHECK(load_top(timm) == Variant::kTimm);
  CHECK(load_top(timm + ", variant: timm") == Variant::kTimm);
  CHECK_THROWS_WITH_AS(load_top(timm + ", variant: torchvision"),
                       doctest::Contains("model.backbone.variant: is torchvision, but "),
                       ConfigError);
  CHECK_THROWS_AS(load_top(torchvision + ", variant: timm"), ConfigError);
  // Without the classifier, the two are one network.
  CHECK(load(timm).model.backbone->variant == Variant::kTorchvision);
  CHECK(load(torchvision + ", variant: timm").model.backbone->variant == Variant::kTimm);
}

TEST_CASE("backbone.variant: a variant that the backbone does not have is an error") {
  CHECK_THROWS_WITH_AS(load("name: densenet121, variant: timm_tf"),
                       doctest::Contains("there is no densenet121 of timm_tf here; its variants "
                                         "are keras, torchvision, timm"),
                       ConfigError);
  CHECK_THROWS_AS(load("name: resnet18, variant: keras"), ConfigError);
}

TEST_CASE(
    "backbone.variant: given without a file, it decides the preprocessing unless the config does") {
  CHECK(load("name: resnet50, variant: torchvision").data.preprocess == PreprocessPreset::kTorch);
  CHECK(load("name: vgg16, variant: torchvision").data.preprocess == PreprocessPreset::kTorch);
  const Config config =
      parse(config_text("name: resnet50, variant: torchvision"), {set("data.preprocess", "tf")})
          .config;
  CHECK(config.data.preprocess == PreprocessPreset::kTf);
}

TEST_CASE(
    "parse_recorded_config: backbone.variant is read, or the first, and no file is looked at") {
  const Files files;
  const auto recorded = [&](const std::string& backbone) {
    return *parse_recorded_config(config_text(backbone + ", weights: '" + files.torch + "'"),
                                  "config.yaml")
                .config.model.backbone;
  };
  CHECK(recorded("name: resnet50").variant == Variant::kKeras);
  CHECK(recorded("name: resnet34").variant == Variant::kTorchvision);
  CHECK(recorded("name: resnet50, variant: torchvision").variant == Variant::kTorchvision);
  CHECK(recorded("name: resnet50, variant: keras").variant == Variant::kKeras);
}

TEST_CASE("backbone.variant: the resolved value is written with the config") {
  const Files files;
  const Config config = load("name: resnet50, weights: '" + files.torch + "'");
  CHECK(to_yaml(config).find("variant: torchvision") != std::string::npos);
  CHECK(parse_recorded_config(to_yaml(config), "config.yaml").config.model.backbone->variant ==
        Variant::kTorchvision);
}

}  // namespace trainer::config::variant_test
