#include "config/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;
using BackboneName = Backbone::Name;

// The ImageNet weights of a backbone.
struct Pretrained {
  Backbone::Name name;
  const char* python_class;
  PreprocessPreset preset;
  const char* file;  // % stands for alpha, and * for `no_top` if the classifier is left out
  const char* no_top = "_notop";
  std::int64_t side = 224;  // the height and width of the training images
};

constexpr Pretrained kPretrained[] = {
    {BackboneName::kVgg16, "VGG16", PreprocessPreset::kCaffe,
     "vgg16_weights_tf_dim_ordering_tf_kernels*.h5"},
    {BackboneName::kMobileNetV2, "MobileNetV2", PreprocessPreset::kTf,
     "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_%_224*.h5", "_no_top"},
    {BackboneName::kResNet50, "ResNet50", PreprocessPreset::kCaffe,
     "resnet50_weights_tf_dim_ordering_tf_kernels*.h5"},
    {BackboneName::kResNet18, "ResNet18", PreprocessPreset::kTorch,
     "resnet18-f37072fd.safetensors"},
    {BackboneName::kResNet34, "ResNet34", PreprocessPreset::kTorch,
     "resnet34-b627a593.safetensors"},
    {BackboneName::kResNet101, "ResNet101", PreprocessPreset::kCaffe,
     "resnet101_weights_tf_dim_ordering_tf_kernels*.h5"},
    {BackboneName::kDenseNet121, "DenseNet121", PreprocessPreset::kTorch,
     "densenet121_weights_tf_dim_ordering_tf_kernels*.h5"},
    {BackboneName::kEfficientNetB0, "EfficientNetB0", PreprocessPreset::kTorch,
     "efficientnetb0*.h5"},
    {BackboneName::kEfficientNetB1, "EfficientNetB1", PreprocessPreset::kTorch,
     "efficientnetb1*.h5", "_notop", 240},
    {BackboneName::kEfficientNetB2, "EfficientNetB2", PreprocessPreset::kTorch,
     "efficientnetb2*.h5", "_notop", 260},
    {BackboneName::kEfficientNetB3, "EfficientNetB3", PreprocessPreset::kTorch,
     "efficientnetb3*.h5", "_notop", 300},
    {BackboneName::kMobileNetV3Small, "MobileNetV3Small", PreprocessPreset::kTf,
     "weights_mobilenet_v3_small_224_%_float*.h5", "_no_top_v2"},
    {BackboneName::kMobileNetV3Large, "MobileNetV3Large", PreprocessPreset::kTf,
     "weights_mobilenet_v3_large_224_%_float*.h5", "_no_top_v2"},
    {BackboneName::kConvNeXtTiny, "ConvNeXtTiny", PreprocessPreset::kTorch, "convnext_tiny*.h5"}};
static_assert(std::size(kPretrained) == static_cast<int>(BackboneName::kConvNeXtTiny) + 1,
              "every backbone needs a row");

const Pretrained& find_pretrained(BackboneName name) {
  return *std::ranges::find(kPretrained, name, &Pretrained::name);
}

void replace_mark(std::string& text, char mark, const std::string& by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, 1, by);
}

constexpr const char* kTorchVgg16 = "vgg16-397923af";

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
  std::string home = read_variable(environment, "TORCH_HOME");
  if (home.empty()) {
    if (const std::string cache = read_variable(environment, "XDG_CACHE_HOME"); !cache.empty()) {
      home = in_folder(cache, "torch");
    }
  }
  if (home.empty()) {
    const std::string user = read_variable(environment, "HOME");
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
  const Pretrained& pretrained = find_pretrained(backbone.name);
  std::string file = pretrained.file;
  replace_mark(file, '%', backbone.alpha == 1 ? "1.0" : concat(backbone.alpha));
  replace_mark(file, '*', backbone.include_top ? "" : pretrained.no_top);
  return file;
}

bool is_from_torchvision(Backbone::Name name) {
  return name == Backbone::Name::kResNet18 || name == Backbone::Name::kResNet34;
}

const char* keras_class(Backbone::Name name) { return find_pretrained(name).python_class; }

PreprocessPreset default_preprocess(Backbone::Name name) { return find_pretrained(name).preset; }

std::int64_t default_image_side(Backbone::Name name) { return find_pretrained(name).side; }

std::vector<std::string> weight_folders(const Environment& environment) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    const auto normal = [](const std::string& path) {
      return (fs::path(path) / "").lexically_normal();
    };
    const bool is_listed = std::ranges::any_of(
        folders, [&](const std::string& listed) { return normal(listed) == normal(folder); });
    if (!is_listed) folders.push_back(folder);
  };
  if (const std::string folder = read_variable(environment, "WEIGHTS_DIR"); !folder.empty())
    add(folder);
  add("weights");
  if (const std::string home = read_variable(environment, "HOME"); !home.empty()) {
    add(in_folder(home, ".keras/models"));
  }
  return folders;
}

std::string download_folder(const Environment& environment) {
  const std::vector<std::string> folders = weight_folders(environment);
  std::error_code error;
  const bool is_chosen = !read_variable(environment, "WEIGHTS_DIR").empty();
  return is_chosen || fs::is_directory(folders.front(), error) ? folders.front() : folders.back();
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
    if (std::ranges::find(folders, folder) == folders.end()) {
      folders.push_back(folder);
    }
  }
  if (is_from_torchvision(backbone.name)) {
    const std::string name(spell(backbone.name)), file = imagenet_weight_file(backbone);
    const std::string folder = download_folder(environment);
    return concat(file, " is in none of ", join(folders, ", "),
                  ". torchvision's file is a pickle; this saves it in a form that is read:\n  "
                  "mkdir -p ",
                  folder,
                  " && python3 -c \"import torchvision, safetensors.torch as s; "
                  "s.save_file(torchvision.models.",
                  name, "(weights='IMAGENET1K_V1').state_dict(), '", folder, "/", file, "')\"");
  }
  const bool has_download = !backbone.include_top && backbone.alpha == 1;
  const bool has_pickle = !torch.empty() && is_file(in_folder(torch, concat(kTorchVgg16, ".pth")));
  return concat(imagenet_weight_file(backbone), " is in none of ", join(folders, ", "), ". ",
                has_download
                    ? concat("This downloads it:\n  trainer weights ", spell(backbone.name))
                    : concat("Calling keras.applications.", keras_class(backbone.name),
                             " once fetches it into ~/.keras/models"),
                has_pickle ? conversion(torch) : "");
}

}  // namespace trainer::config
