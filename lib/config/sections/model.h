// The section model: layers, a classifier of dense layers or a backbone, and the loss.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/choices.h"
#include "base/error.h"
#include "base/spelling.h"
#include "config/sections/duration.h"
#include "config/sections/layers.h"

namespace trainer::config {

class FieldVisitor;

// Multiplies a cross-entropy by (1 - p)^gamma, where p is the probability of the true class, so
// that easy samples count less (Keras's CategoricalFocalCrossentropy and BinaryFocalCrossentropy).
struct Focal {
  double gamma = 2;
  // softmax: a factor, Keras's 0.25 when left out. binary: the weight of class 1, while class 0 has
  // 1 - alpha; no weights when left out.
  std::optional<double> alpha;
};

// The layers of TensorFlow's DNNClassifier: flatten, hidden dense layers, one logit per class.
struct DenseClassifier {
  std::vector<std::int64_t> hidden_units;  // required
  Activation activation = Activation::kRelu;
  double dropout = 0;  // follows each hidden layer, when > 0
  Initializer kernel_initializer;
  SourceLoc loc;
};

// Python's slice [begin:end].
struct LayerSlice {
  std::optional<std::int64_t> begin, end;
};

// Some layers of a backbone: a slice of its list, or the layers whose names match a pattern.
struct LayerSelection {
  std::optional<LayerSlice> slice;
  std::string pattern;  // a name with *, ? and classes such as [1-6]; has no slice
  SourceLoc loc;
};

// The layers of a backbone that are not trained. Positions are those of Keras's `model.layers`, in
// which the input layer is number 0.
struct Freeze {
  enum class Kind { kNone, kAll, kCount, kSelections };
  Kind kind = Kind::kNone;
  std::int64_t count = 0;                  // the first `count` layers
  std::vector<LayerSelection> selections;  // the layers of any of them
  SourceLoc loc;                           // the place of the value
};

// Changes the frozen layers from step `at` of the run on.
struct Unfreeze {
  Duration at{1, Duration::Unit::kEpochs};  // required; steps or epochs
  Freeze freeze;                            // layers that stay frozen; none by default
  double learning_rate_multiplier = 1;      // multiplies the schedule's rate from there on
  SourceLoc loc;
};

// A network of another library, with its layer names, up to the features.
struct Backbone {
  // The library whose network it is. The networks of a name differ in their layers' names and
  // options, and in the preprocessing of their weights. kTimmTf: timm's tf_ networks, which have
  // the names of its others with the padding and epsilon of TensorFlow.
  enum class Variant { kKeras, kTorchvision, kTimm, kTimmTf, kTransformers };
  enum class Name {
    kVgg16,
    kResNet18,
    kResNet34,
    kResNet50,
    kResNet101,
    kResNet152,
    kResNeXt50,
    kWideResNet50,
    kResNet20Cifar,
    kResNet56Cifar,
    kDenseNet121,
    kXception,
    kMobileNetV2,
    kMobileNetV3Small,
    kMobileNetV3Large,
    kMobileNetV4Small,
    kMobileNetV4Medium,
    kEfficientNetB0,
    kEfficientNetB1,
    kEfficientNetB2,
    kEfficientNetB3,
    kEfficientNetB4,
    kEfficientNetV2B0,
    kEfficientNetV2B1,
    kEfficientNetV2B2,
    kEfficientNetV2B3,
    kEfficientNetV2S,
    kRegNetY400MF,
    kRegNetY800MF,
    kRegNetY1600MF,
    kRegNetY3200MF,
    kRegNetY8GF,
    kConvNeXtTiny,
    kConvNeXtSmall,
    kConvNeXtBase,
    kConvNeXtV2Atto,
    kConvNeXtV2Femto,
    kConvNeXtV2Pico,
    kConvNeXtV2Nano,
    kConvNeXtV2Tiny,
    kVitTinyPatch16,
    kVitSmallPatch16,
    kVitBasePatch16,
    kDinoV2Small,
    kDinoV2SmallReg,
    kDinoV2Base,
    kDinoV2BaseReg
  };
  Name name = Name::kVgg16;        // required
  std::optional<Variant> variant;  // set in every config that was read; see find_variant()
  std::string weights;             // a file; the initialisers when empty
  double alpha = 1;                // mobilenet: factor of the number of channels
  bool include_top = false;  // adds the classifier, without softmax, for the data set's classes
  // Used without the top. kToken: the class token of ViT.
  enum class Pooling { kNone, kAverage, kMax, kToken } pooling = Pooling::kNone;
  Freeze freeze;
  std::vector<Unfreeze> unfreeze;  // sorted by `at`; one entry may be given without a list
  // kTrain: trained layers use the statistics of the batch. kEval: they use the moving statistics,
  // which then do not change.
  enum class BatchNorm { kTrain, kEval } batch_norm = BatchNorm::kTrain;
  std::vector<std::string> allow_missing;  // tensors ("predictions/*") that may stay as initialised
  // Stochastic depth: the share of the samples that skip the last residual block in training. The
  // share rises linearly from 0 at the first block. Default: 0.2 for EfficientNet, as in Keras,
  // otherwise 0.
  std::optional<double> drop_path;
  SourceLoc loc;
};

// Exactly one of layers, dense_classifier and backbone (with the head after it) is given.
struct Model {
  std::vector<std::int64_t> input;  // [height, width, channels]; the data set's own when empty
  std::vector<Layer> layers;
  std::optional<DenseClassifier> dense_classifier;
  std::optional<Backbone> backbone;
  std::vector<Layer> head;    // the layers after the backbone
  std::string weights;        // a file for layers or dense_classifier; the initialisers when empty
  std::string weights_entry;  // selects a state dict of a PyTorch file; chosen when empty
  // Not a key: the name that one of the keys of weights gives, such as timm/resnet50.a1_in1k; the
  // key then has the file. Empty for a file.
  std::string weights_name;
  std::string weights_warning;  // not a key: the preprocessing that the weights leave open
  std::vector<std::string> allow_missing;          // tensors that `weights` may lack
  LossKind loss = LossKind::kSoftmaxCrossEntropy;  // softmax and binary take logits
  double label_smoothing = 0;                      // 0 <= x < 1, softmax and binary cross-entropy
  std::optional<double> target_threshold;          // 0 <= x < 1, binary cross-entropy
  std::optional<Focal> focal;                      // softmax and binary cross-entropy
  SourceLoc loc;
};

constexpr auto spellings(Backbone::Name) {
  using enum Backbone::Name;
  return std::to_array<Spelling<Backbone::Name>>({{kVgg16, "vgg16"},
                                                  {kResNet18, "resnet18"},
                                                  {kResNet34, "resnet34"},
                                                  {kResNet50, "resnet50"},
                                                  {kResNet101, "resnet101"},
                                                  {kResNet152, "resnet152"},
                                                  {kResNeXt50, "resnext50_32x4d"},
                                                  {kWideResNet50, "wide_resnet50_2"},
                                                  {kResNet20Cifar, "resnet20_cifar"},
                                                  {kResNet56Cifar, "resnet56_cifar"},
                                                  {kDenseNet121, "densenet121"},
                                                  {kXception, "xception"},
                                                  {kMobileNetV2, "mobilenet_v2"},
                                                  {kMobileNetV3Small, "mobilenet_v3_small"},
                                                  {kMobileNetV3Large, "mobilenet_v3_large"},
                                                  {kMobileNetV4Small, "mobilenetv4_conv_small"},
                                                  {kMobileNetV4Medium, "mobilenetv4_conv_medium"},
                                                  {kEfficientNetB0, "efficientnet_b0"},
                                                  {kEfficientNetB1, "efficientnet_b1"},
                                                  {kEfficientNetB2, "efficientnet_b2"},
                                                  {kEfficientNetB3, "efficientnet_b3"},
                                                  {kEfficientNetB4, "efficientnet_b4"},
                                                  {kEfficientNetV2B0, "efficientnetv2_b0"},
                                                  {kEfficientNetV2B1, "efficientnetv2_b1"},
                                                  {kEfficientNetV2B2, "efficientnetv2_b2"},
                                                  {kEfficientNetV2B3, "efficientnetv2_b3"},
                                                  {kEfficientNetV2S, "efficientnetv2_s"},
                                                  {kRegNetY400MF, "regnet_y_400mf"},
                                                  {kRegNetY800MF, "regnet_y_800mf"},
                                                  {kRegNetY1600MF, "regnet_y_1_6gf"},
                                                  {kRegNetY3200MF, "regnet_y_3_2gf"},
                                                  {kRegNetY8GF, "regnet_y_8gf"},
                                                  {kConvNeXtTiny, "convnext_tiny"},
                                                  {kConvNeXtSmall, "convnext_small"},
                                                  {kConvNeXtBase, "convnext_base"},
                                                  {kConvNeXtV2Atto, "convnextv2_atto"},
                                                  {kConvNeXtV2Femto, "convnextv2_femto"},
                                                  {kConvNeXtV2Pico, "convnextv2_pico"},
                                                  {kConvNeXtV2Nano, "convnextv2_nano"},
                                                  {kConvNeXtV2Tiny, "convnextv2_tiny"},
                                                  {kVitTinyPatch16, "vit_tiny_patch16"},
                                                  {kVitSmallPatch16, "vit_small_patch16"},
                                                  {kVitBasePatch16, "vit_base_patch16"},
                                                  {kDinoV2Small, "dinov2_small"},
                                                  {kDinoV2SmallReg, "dinov2_small_reg"},
                                                  {kDinoV2Base, "dinov2_base"},
                                                  {kDinoV2BaseReg, "dinov2_base_reg"}});
}
constexpr auto spellings(Backbone::Variant) {
  using enum Backbone::Variant;
  return std::to_array<Spelling<Backbone::Variant>>({{kKeras, "keras"},
                                                     {kTorchvision, "torchvision"},
                                                     {kTimm, "timm"},
                                                     {kTimmTf, "timm_tf"},
                                                     {kTransformers, "transformers"}});
}
constexpr auto spellings(Backbone::Pooling) {
  using enum Backbone::Pooling;
  return std::to_array<Spelling<Backbone::Pooling>>(
      {{kNone, "none"}, {kAverage, "avg"}, {kMax, "max"}, {kToken, "token"}});
}
constexpr auto spellings(Backbone::BatchNorm) {
  using enum Backbone::BatchNorm;
  return std::to_array<Spelling<Backbone::BatchNorm>>({{kTrain, "train"}, {kEval, "eval"}});
}
void fields(FieldVisitor& v, Model& s);

}  // namespace trainer::config
