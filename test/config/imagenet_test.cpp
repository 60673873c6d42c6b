// Where `weights: imagenet` finds the file of a backbone.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/files/files.h"
#include "config/pretrained.h"
#include "support.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVgg16File = "vgg16_weights_tf_dim_ordering_tf_kernels_notop.h5";

struct Machine {
  TemporaryFolder folder;
  Environment environment{{"HOME", path("home")}, {"WEIGHTS_DIR", path("mine")}};

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  std::string add(const std::string& name) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << "weights";
    return path(name);
  }
  Config load(const std::string& backbone, const std::string& data = "") const {
    return parse("model: {input: [224, 224, 3], backbone: {" + backbone +
                     "}, head: [flatten, dense: 2]}\n"
                     "data: {format: image_folder, path: somewhere" +
                     data + "}\n" + kTrain,
                 {}, environment)
        .config;
  }
};

}  // namespace

TEST_CASE(
    "weights imagenet: the file of Keras comes from the first of several folders that has it") {
  const Machine machine;
  const std::string keras = machine.add(std::string("home/.keras/models/") + kVgg16File);
  const Config config = machine.load("name: vgg16, weights: imagenet");
  CHECK(config.model.backbone->weights == keras);
  CHECK(config.data.preprocess == PreprocessPreset::kCaffe);
  const std::string mine = machine.add(std::string("mine/") + kVgg16File);
  CHECK(machine.load("name: vgg16, weights: imagenet").model.backbone->weights == mine);
  CHECK(machine.load("name: vgg16, weights: other.h5").model.backbone->weights == "other.h5");
  CHECK(machine.load("name: vgg16").model.backbone->weights.empty());
}

TEST_CASE("weights imagenet: alpha and include_top select the file of this variant") {
  const Machine machine;
  const std::string half =
      machine.add("mine/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_0.5_224.h5");
  const Config config =
      parse(
          "model: {input: [224, 224, 3], backbone: {name: mobilenet_v2, weights: imagenet, alpha: "
          "0.5, include_top: true}}\ndata: {format: image_folder, path: somewhere}\n" +
              std::string(kTrain),
          {}, machine.environment)
          .config;
  CHECK(config.model.backbone->weights == half);
}

TEST_CASE(
    "imagenet_weight_file: each backbone has the file name of keras.applications or torchvision") {
  using Name = Backbone::Name;
  const auto file = [](Name name, bool top, double alpha = 1) {
    Backbone backbone;
    backbone.name = name;
    backbone.include_top = top;
    backbone.alpha = alpha;
    return imagenet_weight_file(backbone);
  };
  CHECK(file(Name::kVgg16, false) == kVgg16File);
  CHECK(file(Name::kVgg16, true) == "vgg16_weights_tf_dim_ordering_tf_kernels.h5");
  CHECK(file(Name::kResNet50, false) == "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5");
  CHECK(file(Name::kResNet101, true) == "resnet101_weights_tf_dim_ordering_tf_kernels.h5");
  CHECK(file(Name::kDenseNet121, false) ==
        "densenet121_weights_tf_dim_ordering_tf_kernels_notop.h5");
  CHECK(file(Name::kMobileNetV2, false, 1.4) ==
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.4_224_no_top.h5");
  CHECK(file(Name::kMobileNetV3Small, true) == "weights_mobilenet_v3_small_224_1.0_float.h5");
  CHECK(file(Name::kMobileNetV3Large, false, 0.75) ==
        "weights_mobilenet_v3_large_224_0.75_float_no_top_v2.h5");
  CHECK(file(Name::kEfficientNetB0, false) == "efficientnetb0_notop.h5");
  CHECK(file(Name::kEfficientNetB3, true) == "efficientnetb3.h5");
  CHECK(file(Name::kConvNeXtTiny, false) == "convnext_tiny_notop.h5");
  CHECK(file(Name::kResNet18, false) == "resnet18-f37072fd.pth");
  CHECK(file(Name::kResNet34, false) == "resnet34-b627a593.pth");
}

TEST_CASE(
    "missing_imagenet_weights names the folders searched and the remedy where there is no file") {
  const Machine machine;
  const Backbone backbone = *machine.load("name: mobilenet_v2, weights: imagenet").model.backbone;
  CHECK(backbone.weights == "imagenet");
  CHECK(missing_imagenet_weights(backbone, machine.environment) ==
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5 is in none of " +
            machine.path("mine") + ", weights, " + machine.path("home/.keras/models") +
            ". This downloads it:\n  trainer weights mobilenet_v2");
  const std::string half = missing_imagenet_weights(
      *machine.load("name: mobilenet_v2, weights: imagenet, alpha: 0.5").model.backbone,
      machine.environment);
  CHECK(half.find("trainer weights") == std::string::npos);
  CHECK(
      half.find("calling keras.applications.MobileNetV2(include_top=False, alpha=0.5) once fetches "
                "it") != std::string::npos);
}

TEST_CASE("weights imagenet: a folder that cannot be searched is named, and the next one is used") {
  const Machine machine;
  fs::create_directories(machine.path("home/.keras"));
  fs::create_symlink("models", machine.path("home/.keras/models"));  // a loop
  const std::string line = machine.path("home/.keras/models") +
                           " cannot be searched for weights: Too many levels of symbolic links";
  CHECK(describe_unreadable_folders(machine.environment) == std::vector{line});
  const Backbone backbone = *machine.load("name: mobilenet_v2, weights: imagenet").model.backbone;
  CHECK(missing_imagenet_weights(backbone, machine.environment).ends_with('\n' + line));
  CHECK(describe_unreadable_folders({{"HOME", "/nowhere"}}).empty());
}

TEST_CASE("weight_folders lists a folder with two reasons to be searched once") {
  const auto folders = [](const std::string& mine) {
    return weight_folders({{"HOME", "/home/u"}, {"WEIGHTS_DIR", mine}});
  };
  const std::string keras = "/home/u/.keras/models";
  CHECK(folders("") == std::vector<std::string>{"weights", keras});
  CHECK(folders("/data") == std::vector<std::string>{"/data", "weights", keras});
  for (const char* mine : {"weights", "weights/", "./weights"}) {
    CHECK(folders(mine) == std::vector<std::string>{mine, keras});
  }
  for (const std::string& mine : {keras, keras + "/", std::string("/home/u/x/../.keras/models")}) {
    CHECK(folders(mine) == std::vector<std::string>{mine, "weights"});
  }
}

TEST_CASE("weights imagenet: torchvision's VGG16 in the cache of torch.hub has preprocess torch") {
  Machine machine;
  const std::string safetensors =
      machine.add("home/.cache/torch/hub/checkpoints/vgg16-397923af.safetensors");
  CHECK(machine.load("name: vgg16, weights: imagenet").model.backbone->weights == safetensors);
  const std::string saved = machine.add("home/.cache/torch/hub/checkpoints/vgg16-397923af.pth");
  const Config config = machine.load("name: vgg16, weights: imagenet");
  CHECK(config.model.backbone->weights == saved);
  CHECK(config.data.preprocess == PreprocessPreset::kTorch);
  const Config chosen = machine.load("name: vgg16, weights: imagenet", ", preprocess: tf");
  CHECK(chosen.data.preprocess == PreprocessPreset::kTf);
  CHECK(config.model.backbone->variant == Backbone::Variant::kTorchvision);
  // A variant that is given is the only one that is searched.
  CHECK(machine.load("name: vgg16, variant: keras, weights: imagenet").model.backbone->weights ==
        "imagenet");
  CHECK(machine.load("name: resnet50, weights: imagenet").model.backbone->weights == "imagenet");
  const std::string resnet =
      machine.add("home/.cache/torch/hub/checkpoints/resnet50-0676ba61.safetensors");
  CHECK(machine.load("name: resnet50, weights: imagenet").model.backbone->weights == resnet);

  const std::string cached = machine.add("cache/torch/hub/checkpoints/vgg16-397923af.safetensors");
  machine.environment["XDG_CACHE_HOME"] = machine.path("cache");
  CHECK(machine.load("name: vgg16, weights: imagenet").model.backbone->weights == cached);
  const std::string homed = machine.add("torch/hub/checkpoints/vgg16-397923af.safetensors");
  machine.environment["TORCH_HOME"] = machine.path("torch");
  CHECK(machine.load("name: vgg16, weights: imagenet").model.backbone->weights == homed);
}

}  // namespace trainer::config
