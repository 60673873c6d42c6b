#include "config/pretrained.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "config/weight_names.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;
using BackboneName = Backbone::Name;

// The ImageNet weights of a variant of a backbone.
struct Pretrained {
  Backbone::Name name;
  Backbone::Variant variant;
  const char* python_class;
  const char* first_block_layer;
  PreprocessPreset preset;
  // % stands for alpha, and * for `no_top` if the classifier is left out; "" if `imagenet` names no
  // file.
  const char* file = "";
  const char* no_top = "_notop";
  std::int64_t side = 224;        // the height and width of the training images
  const char* logits_layer = "";  // where it alone distinguishes the variants
};

constexpr auto kKeras = Backbone::Variant::kKeras;
constexpr auto kTorchvision = Backbone::Variant::kTorchvision;
constexpr auto kTimm = Backbone::Variant::kTimm;
constexpr auto kTimmTf = Backbone::Variant::kTimmTf;
constexpr auto kTransformers = Backbone::Variant::kTransformers;

constexpr auto kPretrained = [] {
  using enum Backbone::Name;
  using enum PreprocessPreset;
  return std::to_array<Pretrained>(
      {{kVgg16, kKeras, "VGG16", "block1_conv1", kCaffe,
        "vgg16_weights_tf_dim_ordering_tf_kernels*.h5"},
       {kVgg16, kTorchvision, "vgg16", "features.0", kTorch, "vgg16-397923af.pth", "_notop", 224,
        "classifier.6"},
       {kVgg16, kTimm, "vgg16", "features.0", kTorch, "", "_notop", 224, "head.fc"},
       {kResNet18, kTorchvision, "resnet18", "layer1.0.conv1", kTorch, "resnet18-f37072fd.pth"},
       {kResNet18, kTimm, "resnet18", "layer1.0.conv1", kTorch},
       {kResNet18, kTransformers, "ResNetForImageClassification",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution", kTorch},
       {kResNet34, kTorchvision, "resnet34", "layer1.0.conv1", kTorch, "resnet34-b627a593.pth"},
       {kResNet34, kTimm, "resnet34", "layer1.0.conv1", kTorch},
       {kResNet34, kTransformers, "ResNetForImageClassification",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution", kTorch},
       {kResNet50, kKeras, "ResNet50", "conv2_block1_1_conv", kCaffe,
        "resnet50_weights_tf_dim_ordering_tf_kernels*.h5"},
       {kResNet50, kTorchvision, "resnet50", "layer1.0.conv1", kTorch, "resnet50-0676ba61.pth"},
       {kResNet50, kTimm, "resnet50", "layer1.0.conv1", kTorch},
       {kResNet50, kTransformers, "ResNetForImageClassification",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution", kTorch},
       {kResNet101, kKeras, "ResNet101", "conv2_block1_1_conv", kCaffe,
        "resnet101_weights_tf_dim_ordering_tf_kernels*.h5"},
       {kResNet101, kTorchvision, "resnet101", "layer1.0.conv1", kTorch, "resnet101-63fe2227.pth"},
       {kResNet101, kTimm, "resnet101", "layer1.0.conv1", kTorch},
       {kResNet101, kTransformers, "ResNetForImageClassification",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution", kTorch},
       {kResNet152, kKeras, "ResNet152", "conv2_block1_1_conv", kCaffe,
        "resnet152_weights_tf_dim_ordering_tf_kernels*.h5"},
       {kResNet152, kTorchvision, "resnet152", "layer1.0.conv1", kTorch, "resnet152-394f9c45.pth"},
       {kResNet152, kTimm, "resnet152", "layer1.0.conv1", kTorch},
       {kResNet152, kTransformers, "ResNetForImageClassification",
        "resnet.encoder.stages.0.layers.0.layer.0.convolution", kTorch},
       {kResNeXt50, kTorchvision, "resnext50_32x4d", "layer1.0.conv1", kTorch,
        "resnext50_32x4d-7cdf4587.pth"},
       {kResNeXt50, kTimm, "resnext50_32x4d", "layer1.0.conv1", kTorch},
       {kWideResNet50, kTorchvision, "wide_resnet50_2", "layer1.0.conv1", kTorch,
        "wide_resnet50_2-95faca4d.pth"},
       {kWideResNet50, kTimm, "wide_resnet50_2", "layer1.0.conv1", kTorch},
       {kResNet20Cifar, kTorchvision, "pytorch_resnet_cifar10.resnet20", "layer1.0.conv1", kTorch,
        "", "_notop", 32},
       {kResNet56Cifar, kTorchvision, "pytorch_resnet_cifar10.resnet56", "layer1.0.conv1", kTorch,
        "", "_notop", 32},
       {kDenseNet121, kKeras, "DenseNet121", "conv2_block1_1_conv", kTorch,
        "densenet121_weights_tf_dim_ordering_tf_kernels*.h5"},
       {kDenseNet121, kTorchvision, "densenet121", "features.denseblock1.denselayer1.conv1", kTorch,
        "densenet121-a639ec97.pth"},
       {kDenseNet121, kTimm, "densenet121", "features.denseblock1.denselayer1.conv1", kTorch},
       {kXception, kKeras, "Xception", "block2_sepconv1", kTf,
        "xception_weights_tf_dim_ordering_tf_kernels*.h5", "_notop", 299},
       {kXception, kTimm, "legacy_xception", "block1.rep.0.conv1", kTf, "", "_notop", 299},
       {kMobileNetV2, kKeras, "MobileNetV2", "expanded_conv_depthwise", kTf,
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_%_224*.h5", "_no_top"},
       {kMobileNetV2, kTorchvision, "mobilenet_v2", "features.1.conv.0.0", kTorch,
        "mobilenet_v2-b0353104.pth"},
       {kMobileNetV2, kTimm, "mobilenetv2_100", "blocks.0.0.conv_dw", kTorch},
       {kMobileNetV3Small, kKeras, "MobileNetV3Small", "expanded_conv_depthwise", kTf,
        "weights_mobilenet_v3_small_224_%_float*.h5", "_no_top_v2"},
       {kMobileNetV3Small, kTorchvision, "mobilenet_v3_small", "features.1.block.0.0", kTorch,
        "mobilenet_v3_small-047dcff4.pth"},
       {kMobileNetV3Small, kTimm, "mobilenetv3_small_100", "blocks.0.0.conv_dw", kTorch},
       {kMobileNetV3Small, kTimmTf, "tf_mobilenetv3_small_100", "blocks.0.0.conv_dw", kTf},
       {kMobileNetV3Large, kKeras, "MobileNetV3Large", "expanded_conv_depthwise", kTf,
        "weights_mobilenet_v3_large_224_%_float*.h5", "_no_top_v2"},
       {kMobileNetV3Large, kTorchvision, "mobilenet_v3_large", "features.1.block.0.0", kTorch,
        "mobilenet_v3_large-8738ca79.pth"},
       {kMobileNetV3Large, kTimm, "mobilenetv3_large_100", "blocks.0.0.conv_dw", kTorch},
       {kMobileNetV3Large, kTimmTf, "tf_mobilenetv3_large_100", "blocks.0.0.conv_dw", kTf},
       {kMobileNetV4Small, kTimm, "mobilenetv4_conv_small", "blocks.0.0.conv", kTorch},
       {kMobileNetV4Medium, kTimm, "mobilenetv4_conv_medium", "blocks.0.0.conv_exp", kTorch},
       {kEfficientNetB0, kKeras, "EfficientNetB0", "block1a_dwconv", kTorch, "efficientnetb0*.h5",
        "_notop"},
       {kEfficientNetB0, kTorchvision, "efficientnet_b0", "features.1.0.block.0.0", kTorch,
        "efficientnet_b0_rwightman-7f5810bc.pth"},
       {kEfficientNetB0, kTimm, "efficientnet_b0", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB0, kTimmTf, "tf_efficientnet_b0", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB1, kKeras, "EfficientNetB1", "block1a_dwconv", kTorch, "efficientnetb1*.h5",
        "_notop", 240},
       {kEfficientNetB1, kTorchvision, "efficientnet_b1", "features.1.0.block.0.0", kTorch,
        "efficientnet_b1_rwightman-bac287d4.pth"},
       {kEfficientNetB1, kTimm, "efficientnet_b1", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB1, kTimmTf, "tf_efficientnet_b1", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB2, kKeras, "EfficientNetB2", "block1a_dwconv", kTorch, "efficientnetb2*.h5",
        "_notop", 260},
       {kEfficientNetB2, kTorchvision, "efficientnet_b2", "features.1.0.block.0.0", kTorch,
        "efficientnet_b2_rwightman-c35c1473.pth"},
       {kEfficientNetB2, kTimm, "efficientnet_b2", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB2, kTimmTf, "tf_efficientnet_b2", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB3, kKeras, "EfficientNetB3", "block1a_dwconv", kTorch, "efficientnetb3*.h5",
        "_notop", 300},
       {kEfficientNetB3, kTorchvision, "efficientnet_b3", "features.1.0.block.0.0", kTorch,
        "efficientnet_b3_rwightman-b3899882.pth"},
       {kEfficientNetB3, kTimm, "efficientnet_b3", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB3, kTimmTf, "tf_efficientnet_b3", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB4, kKeras, "EfficientNetB4", "block1a_dwconv", kTorch, "efficientnetb4*.h5",
        "_notop", 380},
       {kEfficientNetB4, kTorchvision, "efficientnet_b4", "features.1.0.block.0.0", kTorch,
        "efficientnet_b4_rwightman-23ab8bcd.pth"},
       {kEfficientNetB4, kTimm, "efficientnet_b4", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetB4, kTimmTf, "tf_efficientnet_b4", "blocks.0.0.conv_dw", kTorch},
       {kEfficientNetV2B0, kKeras, "EfficientNetV2B0", "block1a_project_conv", kTorch,
        "efficientnetv2-b0*.h5", "_notop"},
       {kEfficientNetV2B0, kTimmTf, "tf_efficientnetv2_b0", "blocks.0.0.conv", kTorch},
       {kEfficientNetV2B1, kKeras, "EfficientNetV2B1", "block1a_project_conv", kTorch,
        "efficientnetv2-b1*.h5", "_notop", 240},
       {kEfficientNetV2B1, kTimmTf, "tf_efficientnetv2_b1", "blocks.0.0.conv", kTorch},
       {kEfficientNetV2B2, kKeras, "EfficientNetV2B2", "block1a_project_conv", kTorch,
        "efficientnetv2-b2*.h5", "_notop", 260},
       {kEfficientNetV2B2, kTimmTf, "tf_efficientnetv2_b2", "blocks.0.0.conv", kTorch},
       {kEfficientNetV2B3, kKeras, "EfficientNetV2B3", "block1a_project_conv", kTorch,
        "efficientnetv2-b3*.h5", "_notop", 300},
       {kEfficientNetV2B3, kTimmTf, "tf_efficientnetv2_b3", "blocks.0.0.conv", kTorch},
       {kEfficientNetV2S, kKeras, "EfficientNetV2S", "block1a_project_conv", kTf,
        "efficientnetv2-s*.h5", "_notop", 384},
       {kEfficientNetV2S, kTorchvision, "efficientnet_v2_s", "features.1.0.block.0.0", kTorch,
        "efficientnet_v2_s-dd5fe13b.pth"},
       {kEfficientNetV2S, kTimm, "efficientnetv2_s", "blocks.0.0.conv", kTorch},
       {kEfficientNetV2S, kTimmTf, "tf_efficientnetv2_s", "blocks.0.0.conv", kTf},
       {kRegNetY400MF, kTorchvision, "regnet_y_400mf", "trunk_output.block1.block1-0.f.a.0", kTorch,
        "regnet_y_400mf-c65dace8.pth"},
       {kRegNetY400MF, kTimm, "regnety_004", "s1.b1.conv1.conv", kTorch},
       {kRegNetY400MF, kKeras, "RegNetY004", "regnety004_Stage_0_YBlock_0_conv_1x1_1", kScale,
        "regnety004*.h5"},
       {kRegNetY800MF, kTorchvision, "regnet_y_800mf", "trunk_output.block1.block1-0.f.a.0", kTorch,
        "regnet_y_800mf-1b27b58c.pth"},
       {kRegNetY800MF, kTimm, "regnety_008", "s1.b1.conv1.conv", kTorch},
       {kRegNetY800MF, kKeras, "RegNetY008", "regnety008_Stage_0_YBlock_0_conv_1x1_1", kScale,
        "regnety008*.h5"},
       {kRegNetY1600MF, kTorchvision, "regnet_y_1_6gf", "trunk_output.block1.block1-0.f.a.0",
        kTorch, "regnet_y_1_6gf-b11a554e.pth"},
       {kRegNetY1600MF, kTimm, "regnety_016", "s1.b1.conv1.conv", kTorch},
       {kRegNetY1600MF, kKeras, "RegNetY016", "regnety016_Stage_0_YBlock_0_conv_1x1_1", kScale,
        "regnety016*.h5"},
       {kRegNetY3200MF, kTorchvision, "regnet_y_3_2gf", "trunk_output.block1.block1-0.f.a.0",
        kTorch, "regnet_y_3_2gf-b5a9779c.pth"},
       {kRegNetY3200MF, kTimm, "regnety_032", "s1.b1.conv1.conv", kTorch},
       {kRegNetY3200MF, kKeras, "RegNetY032", "regnety032_Stage_0_YBlock_0_conv_1x1_1", kScale,
        "regnety032*.h5"},
       {kRegNetY8GF, kTorchvision, "regnet_y_8gf", "trunk_output.block1.block1-0.f.a.0", kTorch,
        "regnet_y_8gf-d0d0e4a8.pth"},
       {kRegNetY8GF, kTimm, "regnety_080", "s1.b1.conv1.conv", kTorch},
       {kRegNetY8GF, kKeras, "RegNetY080", "regnety080_Stage_0_YBlock_0_conv_1x1_1", kScale,
        "regnety080*.h5"},
       {kConvNeXtTiny, kKeras, "ConvNeXtTiny", "convnext_tiny_stage_0_block_0_depthwise_conv",
        kTorch, "convnext_tiny*.h5"},
       {kConvNeXtTiny, kTorchvision, "convnext_tiny", "features.1.0.block.0", kTorch,
        "convnext_tiny-983f1562.pth"},
       {kConvNeXtTiny, kTimm, "convnext_tiny", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtTiny, kTransformers, "ConvNextForImageClassification",
        "convnext.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtSmall, kKeras, "ConvNeXtSmall", "convnext_small_stage_0_block_0_depthwise_conv",
        kTorch, "convnext_small*.h5"},
       {kConvNeXtSmall, kTorchvision, "convnext_small", "features.1.0.block.0", kTorch,
        "convnext_small-0c510722.pth"},
       {kConvNeXtSmall, kTimm, "convnext_small", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtSmall, kTransformers, "ConvNextForImageClassification",
        "convnext.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtBase, kKeras, "ConvNeXtBase", "convnext_base_stage_0_block_0_depthwise_conv",
        kTorch, "convnext_base*.h5"},
       {kConvNeXtBase, kTorchvision, "convnext_base", "features.1.0.block.0", kTorch,
        "convnext_base-6075fbad.pth"},
       {kConvNeXtBase, kTimm, "convnext_base", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtBase, kTransformers, "ConvNextForImageClassification",
        "convnext.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtV2Atto, kTimm, "convnextv2_atto", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtV2Atto, kTransformers, "ConvNextV2ForImageClassification",
        "convnextv2.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtV2Femto, kTimm, "convnextv2_femto", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtV2Femto, kTransformers, "ConvNextV2ForImageClassification",
        "convnextv2.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtV2Pico, kTimm, "convnextv2_pico", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtV2Pico, kTransformers, "ConvNextV2ForImageClassification",
        "convnextv2.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtV2Nano, kTimm, "convnextv2_nano", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtV2Nano, kTransformers, "ConvNextV2ForImageClassification",
        "convnextv2.encoder.stages.0.layers.0.dwconv", kTorch},
       {kConvNeXtV2Tiny, kTimm, "convnextv2_tiny", "stages.0.blocks.0.conv_dw", kTorch},
       {kConvNeXtV2Tiny, kTransformers, "ConvNextV2ForImageClassification",
        "convnextv2.encoder.stages.0.layers.0.dwconv", kTorch},
       {kVitTinyPatch16, kTimm, "vit_tiny_patch16_224", "blocks.0.attn.qkv", kTf},
       {kVitTinyPatch16, kTransformers, "ViTForImageClassification",
        "vit.encoder.layer.0.attention.attention.query", kTf},
       {kVitSmallPatch16, kTimm, "vit_small_patch16_224", "blocks.0.attn.qkv", kTf},
       {kVitSmallPatch16, kTransformers, "ViTForImageClassification",
        "vit.encoder.layer.0.attention.attention.query", kTf},
       {kVitBasePatch16, kTimm, "vit_base_patch16_224", "blocks.0.attn.qkv", kTf},
       {kVitBasePatch16, kTorchvision, "vit_b_16", "encoder.layers.encoder_layer_0.ln_1", kTorch,
        "vit_b_16-c867db91.pth"},
       {kVitBasePatch16, kTransformers, "ViTForImageClassification",
        "vit.encoder.layer.0.attention.attention.query", kTf},
       {kDinoV2Small, kTimm, "vit_small_patch14_dinov2", "blocks.0.attn.qkv", kTorch},
       {kDinoV2Small, kTransformers, "Dinov2ForImageClassification",
        "dinov2.encoder.layer.0.attention.attention.query", kTorch},
       {kDinoV2SmallReg, kTimm, "vit_small_patch14_reg4_dinov2", "blocks.0.attn.qkv", kTorch},
       {kDinoV2SmallReg, kTransformers, "Dinov2WithRegistersForImageClassification",
        "dinov2_with_registers.encoder.layer.0.attention.attention.query", kTorch},
       {kDinoV2Base, kTimm, "vit_base_patch14_dinov2", "blocks.0.attn.qkv", kTorch},
       {kDinoV2Base, kTransformers, "Dinov2ForImageClassification",
        "dinov2.encoder.layer.0.attention.attention.query", kTorch},
       {kDinoV2BaseReg, kTimm, "vit_base_patch14_reg4_dinov2", "blocks.0.attn.qkv", kTorch},
       {kDinoV2BaseReg, kTransformers, "Dinov2WithRegistersForImageClassification",
        "dinov2_with_registers.encoder.layer.0.attention.attention.query", kTorch}});
}();
static_assert(std::ranges::all_of(spellings(BackboneName{}),
                                  [](const auto& word) {
                                    return std::ranges::find(kPretrained, word.value,
                                                             &Pretrained::name) !=
                                           std::end(kPretrained);
                                  }),
              "every backbone needs a row");

const Pretrained& find_pretrained(const Backbone& backbone) {
  const Backbone::Variant variant = find_variant(backbone);
  return *std::ranges::find_if(kPretrained, [&](const Pretrained& row) {
    return row.name == backbone.name && row.variant == variant;
  });
}

void replace_mark(std::string& text, char mark, const std::string& by) {
  if (const std::size_t at = text.find(mark); at != std::string::npos) text.replace(at, 1, by);
}

std::string in_folder(const std::string& folder, const std::string& file) {
  return (fs::path(folder) / file).string();
}

std::vector<std::string> searched_folders(const Pretrained& row, const Environment& environment) {
  std::vector<std::string> folders = weight_folders(environment);
  const std::string torch = torch_folder(environment);
  if (row.variant == kTorchvision && !torch.empty()) folders.push_back(torch);
  return folders;
}

}  // namespace

std::vector<Backbone> list_backbones() {
  std::vector<Backbone> backbones;
  for (const Pretrained& row : kPretrained) {
    Backbone& backbone = backbones.emplace_back();
    backbone.name = row.name;
    backbone.variant = row.variant;
  }
  return backbones;
}

std::vector<Backbone::Variant> list_variants(Backbone::Name name) {
  std::vector<Backbone::Variant> variants;
  for (const Pretrained& row : kPretrained) {
    if (row.name == name) variants.push_back(row.variant);
  }
  return variants;
}

Backbone::Variant find_variant(const Backbone& backbone) {
  return backbone.variant.value_or(
      std::ranges::find(kPretrained, backbone.name, &Pretrained::name)->variant);
}

const char* first_block_layer(const Backbone& backbone) {
  return find_pretrained(backbone).first_block_layer;
}

const char* distinctive_logits_layer(const Backbone& backbone) {
  return find_pretrained(backbone).logits_layer;
}

std::string imagenet_weight_file(const Backbone& backbone) {
  const Pretrained& pretrained = find_pretrained(backbone);
  std::string file = pretrained.file;
  replace_mark(file, '%', backbone.alpha == 1 ? "1.0" : concat(backbone.alpha));
  replace_mark(file, '*', backbone.include_top ? "" : pretrained.no_top);
  return file;
}

const char* python_class(const Backbone& backbone) {
  return find_pretrained(backbone).python_class;
}

std::string python_name(const Backbone& backbone) {
  const std::string name = python_class(backbone);
  if (name.find('.') != std::string::npos) return name;
  switch (find_variant(backbone)) {
    case kKeras:
      return "keras.applications." + name;
    case kTorchvision:
      return "torchvision.models." + name;
    case kTransformers:
      return "transformers." + name;
    case kTimm:
    case kTimmTf:
      return "timm." + name;
  }
  return name;
}

PreprocessPreset default_preprocess(const Backbone& backbone) {
  return find_pretrained(backbone).preset;
}

std::int64_t default_image_side(Backbone::Name name) {
  return std::ranges::find(kPretrained, name, &Pretrained::name)->side;
}

bool has_class_token(Backbone::Name name) {
  return name >= BackboneName::kVitTinyPatch16 && name <= BackboneName::kDinoV2BaseReg;
}

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

std::vector<std::string> describe_unreadable_folders(const Environment& environment) {
  std::vector<std::string> lines;
  for (const std::string& folder : weight_folders(environment)) {
    std::error_code error;
    const fs::file_type type = fs::status(fs::path(folder) / "any file", error).type();
    if (type != fs::file_type::none) continue;
    lines.push_back(concat(folder, " cannot be searched for weights: ", error.message()));
  }
  return lines;
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
  for (const Pretrained& row : kPretrained) {
    if (row.name != backbone.name || row.variant != backbone.variant.value_or(row.variant))
      continue;
    if (*row.file == '\0') continue;
    Backbone found = backbone;
    found.variant = row.variant;
    const fs::path file = imagenet_weight_file(found);
    for (const std::string& folder : searched_folders(row, environment)) {
      for (const fs::path& name : {file, fs::path(file).replace_extension(".safetensors")}) {
        if (!is_file((fs::path(folder) / name).string())) continue;
        found.weights = (fs::path(folder) / name).string();
        backbone = std::move(found);
        return;
      }
    }
  }
}

std::string missing_imagenet_weights(const Backbone& backbone, const Environment& environment,
                                     const std::vector<std::string>& more) {
  if (imagenet_weight_file(backbone).empty()) {
    return concat("is imagenet, which names no file of ", python_name(backbone),
                  "; give a file with its weights");
  }
  std::vector<std::string> folders = searched_folders(find_pretrained(backbone), environment);
  for (const std::string& folder : more) {
    if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(folder);
  }
  const bool has_download =
      find_variant(backbone) == kKeras && !backbone.include_top && backbone.alpha == 1;
  std::string message =
      concat(imagenet_weight_file(backbone), " is in none of ", join(folders, ", "), ". ",
             has_download ? concat("This downloads it:\n  trainer weights ", spell(backbone.name))
                          : weights_advice(backbone, environment));
  for (const std::string& line : describe_unreadable_folders(environment)) message += '\n' + line;
  return message;
}

std::string weights_advice(const Backbone& backbone, const Environment& environment) {
  const std::string file = imagenet_weight_file(backbone);
  if (file.empty()) return concat("Save the state dict of ", python_name(backbone), '.');
  if (find_variant(backbone) == kTorchvision) {
    return concat("This downloads it:\n  curl --create-dirs -o ",
                  in_folder(download_folder(environment), file),
                  " https://download.pytorch.org/models/", file);
  }
  const std::string top = backbone.include_top ? "" : "include_top=False";
  const std::string alpha =
      backbone.alpha == 1 ? "" : concat(top.empty() ? "" : ", ", "alpha=", backbone.alpha);
  return concat("Keras's file is ", file, ": calling ", python_name(backbone), '(', top, alpha,
                ") once fetches it into ~/.keras/models, where `weights: imagenet` finds it.");
}

}  // namespace trainer::config
