#include "model/backbones/depth_groups.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;

// The name of the group of all layers after a backbone's blocks.
const std::string kHead = "head";

bool starts_with_any(const std::string& name, std::initializer_list<const char*> starts) {
  return std::ranges::any_of(starts, [&](const char* start) { return name.starts_with(start); });
}

// Returns the first `parts` parts of a name: conv2_block1 of conv2_block1_0_bn.
std::string first_parts(const std::string& name, char separator, int parts) {
  std::size_t end = 0;
  for (int i = 0; i < parts && end != std::string::npos; ++i) {
    end = name.find(separator, i == 0 ? 0 : end + 1);
  }
  return name.substr(0, end);
}

// Returns the group of a layer by its name; "" stands for the group of the layer before it.
// The names are those of Keras or of torchvision.
std::string resnet_group(const std::string& name) {
  if (name.starts_with("conv1_") || name == "conv1" || name == "bn1") return "stem";
  if (name.starts_with("layer")) return first_parts(name, '.', 2);
  return name.starts_with("conv") ? first_parts(name, '_', 2) : kHead;
}

std::string mobilenet_v2_group(const std::string& name) {
  if (name == "Conv1" || name == "bn_Conv1") return "stem";
  if (starts_with_any(name, {"block_", "expanded_"})) return first_parts(name, '_', 2);
  return name.starts_with("Conv_1") ? "" : kHead;
}

std::string mobilenet_v3_group(const std::string& name) {
  if (name == "conv" || name == "conv_bn") return "stem";
  if (name == "conv_1" || name == "conv_1_bn") return "conv_1";
  if (!name.starts_with("expanded_conv_")) return kHead;
  const bool numbered = std::isdigit(static_cast<unsigned char>(name[14])) != 0;
  return first_parts(name, '_', numbered ? 3 : 2);
}

std::string efficientnet_group(const std::string& name) {
  if (name.starts_with("top_")) return "";
  return starts_with_any(name, {"stem_", "block"}) ? first_parts(name, '_', 1) : kHead;
}

std::string densenet_group(const std::string& name) {
  if (name.starts_with("pool")) return "";  // a transition belongs to the block before it
  return resnet_group(name);
}

std::string convnext_group(const std::string& name) {
  const std::string part = name.substr(std::min(name.size(), std::string("convnext_tiny_").size()));
  if (part.starts_with("stem")) return "stem";
  if (part.starts_with("downsampling")) {  // belongs to the block after it
    const char stage = static_cast<char>(part.back() + 1);
    return std::string("stage_") + stage + "_block_0";
  }
  return part.starts_with("stage") ? first_parts(part, '_', 4) : kHead;
}

std::string find_group(Name backbone, const std::string& name) {
  switch (backbone) {
    case Name::kVgg16:
      return starts_with_any(name, {"block", "features."}) ? name : kHead;
    case Name::kMobileNetV2:
      return mobilenet_v2_group(name);
    case Name::kResNet50:
    case Name::kResNet101:
    case Name::kResNet18:
    case Name::kResNet34:
      return resnet_group(name);
    case Name::kDenseNet121:
      return densenet_group(name);
    case Name::kEfficientNetB0:
    case Name::kEfficientNetB1:
    case Name::kEfficientNetB2:
    case Name::kEfficientNetB3:
      return efficientnet_group(name);
    case Name::kMobileNetV3Small:
    case Name::kMobileNetV3Large:
      return mobilenet_v3_group(name);
    case Name::kConvNeXtTiny:
      return convnext_group(name);
  }
  return kHead;
}

// Returns whether the parameters of the layer scale the output of the layer before it.
bool continues_layer(const std::string& kind) {
  constexpr std::array<const char*, 5> kKinds = {"BatchNormalization", "LayerNormalization",
                                                 "GroupNormalization", "PReLU", "LayerScale"};
  return std::ranges::find(kKinds, kind) != kKinds.end();
}

}  // namespace

int DepthGroups::add(const std::string& name, const std::string& kind, bool of_backbone) {
  std::string group = of_backbone             ? find_group(backbone_->name, name)
                      : backbone_             ? kHead
                      : continues_layer(kind) ? ""
                                              : "layer " + name;
  if (depth_ < 0 || (!group.empty() && group != last_)) {
    ++depth_;
    last_ = std::move(group);
  }
  return depth_;
}

}  // namespace trainer::model
