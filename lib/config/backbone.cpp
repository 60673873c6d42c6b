#include "config/backbone.h"

namespace trainer::config {

PreprocessPreset default_preprocess(Backbone::Name backbone) {
  switch (backbone) {
    case Backbone::Name::kVgg16:
    case Backbone::Name::kResNet50:
      return PreprocessPreset::kCaffe;
    case Backbone::Name::kMobileNetV2:
      return PreprocessPreset::kTf;
  }
  return PreprocessPreset::kNone;
}

}  // namespace trainer::config
