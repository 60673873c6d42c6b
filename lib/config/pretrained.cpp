#include "config/pretrained.h"

#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "config/rule.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;
using BackboneName = Backbone::Name;

constexpr const char* kTorchVgg16 = "vgg16-397923af";

std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string in_folder(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / file).string();
}

// Returns the folder of torch.hub.get_dir() for the network that torchvision and Keras share; ""
// for other networks or without a home folder.
std::string torch_folder(const Backbone& backbone, const Environment& environment) {
  if (backbone.name != BackboneName::kVgg16) return "";
  std::string home = variable(environment, "TORCH_HOME");
  if (home.empty()) {
    if (const std::string cache = variable(environment, "XDG_CACHE_HOME"); !cache.empty()) {
      home = in_folder(cache, "torch");
    }
  }
  if (home.empty()) {
    const std::string user = variable(environment, "HOME");
    if (user.empty()) return "";
    home = in_folder(user, ".cache/torch");
  }
  return in_folder(home, "hub/checkpoints");
}

// torch.hub's own files are not read, because they are pickles, which can run code.
std::string conversion(const std::string& folder) {
  const std::string stem = in_folder(folder, kTorchVgg16);
  return concat(
      "\nThere is torchvision's ", stem,
      ".pth, a pickle. This saves it in a form that is read:\n  python3 -c \"import torch, "
      "safetensors.torch as s; s.save_file(torch.load('",
      stem, ".pth', weights_only=True), '", stem, ".safetensors')\"");
}

}  // namespace

std::string imagenet_weight_file(const Backbone& backbone) {
  const bool top = backbone.include_top;
  switch (backbone.name) {
    case BackboneName::kVgg16:
      return concat("vgg16_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case BackboneName::kResNet50:
      return concat("resnet50_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case BackboneName::kMobileNetV2:
      return concat("mobilenet_v2_weights_tf_dim_ordering_tf_kernels_",
                    backbone.alpha == 1 ? "1.0" : concat(backbone.alpha), "_224",
                    top ? "" : "_no_top", ".h5");
    case BackboneName::kResNet101:
      return concat("resnet101_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case BackboneName::kDenseNet121:
      return concat("densenet121_weights_tf_dim_ordering_tf_kernels", top ? "" : "_notop", ".h5");
    case BackboneName::kEfficientNetB0:
    case BackboneName::kEfficientNetB1:
    case BackboneName::kEfficientNetB2:
    case BackboneName::kEfficientNetB3:
      return concat("efficientnetb", std::string(keras_class(backbone.name)).back(),
                    top ? "" : "_notop", ".h5");
    case BackboneName::kMobileNetV3Small:
    case BackboneName::kMobileNetV3Large:
      return concat("weights_mobilenet_v3_",
                    backbone.name == BackboneName::kMobileNetV3Small ? "small" : "large", "_224_",
                    backbone.alpha == 1 ? "1.0" : concat(backbone.alpha), "_float",
                    top ? "" : "_no_top_v2", ".h5");
    case BackboneName::kConvNeXtTiny:
      return concat("convnext_tiny", top ? "" : "_notop", ".h5");
    case BackboneName::kResNet18:
      return "resnet18-f37072fd.safetensors";
    case BackboneName::kResNet34:
      return "resnet34-b627a593.safetensors";
  }
  return "";
}

bool is_from_torchvision(Backbone::Name name) {
  return name == Backbone::Name::kResNet18 || name == Backbone::Name::kResNet34;
}

const char* keras_class(Backbone::Name name) {
  switch (name) {
    case BackboneName::kVgg16:
      return "VGG16";
    case BackboneName::kResNet50:
      return "ResNet50";
    case BackboneName::kMobileNetV2:
      return "MobileNetV2";
    case BackboneName::kResNet18:
      return "ResNet18";
    case BackboneName::kResNet34:
      return "ResNet34";
    case BackboneName::kResNet101:
      return "ResNet101";
    case BackboneName::kDenseNet121:
      return "DenseNet121";
    case BackboneName::kEfficientNetB0:
      return "EfficientNetB0";
    case BackboneName::kEfficientNetB1:
      return "EfficientNetB1";
    case BackboneName::kEfficientNetB2:
      return "EfficientNetB2";
    case BackboneName::kEfficientNetB3:
      return "EfficientNetB3";
    case BackboneName::kMobileNetV3Small:
      return "MobileNetV3Small";
    case BackboneName::kMobileNetV3Large:
      return "MobileNetV3Large";
    case BackboneName::kConvNeXtTiny:
      return "ConvNeXtTiny";
  }
  return "";
}

std::vector<std::string> weight_folders(const Environment& environment) {
  std::vector<std::string> folders;
  if (const std::string folder = variable(environment, "WEIGHTS_DIR"); !folder.empty()) {
    folders.push_back(folder);
  }
  folders.emplace_back("weights");
  if (const std::string home = variable(environment, "HOME"); !home.empty()) {
    folders.push_back(in_folder(home, ".keras/models"));
  }
  return folders;
}

void find_imagenet_weights(Config& config, const Environment& environment) {
  if (!config.model.backbone || config.model.backbone->weights != kImagenet) return;
  Backbone& backbone = *config.model.backbone;
  const std::string file = imagenet_weight_file(backbone);
  for (const std::string& folder : weight_folders(environment)) {
    if (!is_file(in_folder(folder, file))) continue;
    backbone.weights = in_folder(folder, file);
    return;
  }
  const std::string torch = torch_folder(backbone, environment);
  if (torch.empty() || !is_file(in_folder(torch, concat(kTorchVgg16, ".safetensors")))) return;
  backbone.weights = in_folder(torch, concat(kTorchVgg16, ".safetensors"));
  if (!config.data.preprocess && !config.data.normalize) {
    config.data.preprocess = PreprocessPreset::kTorch;
  }
}

std::string missing_imagenet_weights(const Backbone& backbone, const Environment& environment,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> folders = weight_folders(environment);
  const std::string torch = torch_folder(backbone, environment);
  if (!torch.empty()) folders.push_back(torch);
  for (const std::string& folder : more) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(folder);
    }
  }
  if (is_from_torchvision(backbone.name)) {
    const std::string name(spell(backbone.name)), file = imagenet_weight_file(backbone);
    return concat(file, " is in none of ", join(folders, ", "),
                  ". torchvision's file is a pickle; this saves it in a form that is read:\n  "
                  "python3 -c \"import torchvision, safetensors.torch as s; "
                  "s.save_file(torchvision.models.",
                  name, "(weights='IMAGENET1K_V1').state_dict(), 'weights/", file, "')\"");
  }
  const bool has_script = !backbone.include_top && backbone.alpha == 1;
  const bool has_pickle = !torch.empty() && is_file(in_folder(torch, concat(kTorchVgg16, ".pth")));
  return concat(imagenet_weight_file(backbone), " is in none of ", join(folders, ", "), ". ",
                has_script ? concat("This fetches it, into `weights` or $WEIGHTS_DIR:\n  "
                                    "datasets/weights.sh ",
                                    spell(backbone.name))
                           : concat("Calling keras.applications.", keras_class(backbone.name),
                                    " once fetches it into ~/.keras/models"),
                has_pickle ? conversion(torch) : "");
}

}  // namespace trainer::config
