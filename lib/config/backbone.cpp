#include "config/backbone.h"

namespace trainer::config {

PreprocessPreset default_preprocess(Backbone::Name backbone) {
  switch (backbone) {
    case Backbone::Name::kVgg16:
    case Backbone::Name::kResNet50:
    case Backbone::Name::kResNet101:
      return PreprocessPreset::kCaffe;
    case Backbone::Name::kMobileNetV2:
    case Backbone::Name::kMobileNetV3Small:
    case Backbone::Name::kMobileNetV3Large:
      return PreprocessPreset::kTf;
    case Backbone::Name::kResNet18:
    case Backbone::Name::kResNet34:
    case Backbone::Name::kDenseNet121:
    case Backbone::Name::kEfficientNetB0:
    case Backbone::Name::kEfficientNetB1:
    case Backbone::Name::kEfficientNetB2:
    case Backbone::Name::kEfficientNetB3:
    case Backbone::Name::kConvNeXtTiny:
      return PreprocessPreset::kTorch;
  }
  return PreprocessPreset::kNone;
}

}  // namespace trainer::config
