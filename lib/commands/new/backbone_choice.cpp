#include "commands/new/backbone_choice.h"

#include <algorithm>
#include <array>

namespace trainer::commands {
namespace {

// The most operations of an image on the CPU, so that the features of a thousand photos take about
// a minute on two cores.
constexpr double kMaxGmacsOnCpu = 6.5;

// Published numbers of one network; those of other weights of it differ by some points.
struct PublishedBackbone {
  config::Backbone::Name name;
  double accuracy;  // ImageNet top-1, percent
  double gmacs;     // 10^9 multiplications with addition per image
};

constexpr auto kPublished = [] {
  using enum config::Backbone::Name;
  return std::to_array<PublishedBackbone>(
      {// torchvision's weights IMAGENET1K_V1: `_metrics` and `_ops` of torchvision.models
       {kVgg16, 71.592, 15.47},
       {kResNet18, 69.758, 1.814},
       {kResNet34, 73.314, 3.664},
       {kResNet50, 76.13, 4.089},
       {kResNet101, 77.374, 7.801},
       {kResNet152, 78.312, 11.514},
       {kResNeXt50, 77.618, 4.23},
       {kWideResNet50, 78.468, 11.398},
       {kDenseNet121, 74.434, 2.834},
       {kMobileNetV2, 71.878, 0.301},
       {kMobileNetV3Small, 67.668, 0.057},
       {kMobileNetV3Large, 74.042, 0.217},
       {kEfficientNetB0, 77.692, 0.386},
       {kEfficientNetB1, 78.642, 0.687},
       {kEfficientNetB2, 80.608, 1.088},
       {kEfficientNetB3, 82.008, 1.827},
       {kEfficientNetB4, 83.384, 4.394},
       {kEfficientNetV2S, 84.228, 8.366},
       {kRegNetY400MF, 74.046, 0.402},
       {kRegNetY800MF, 76.42, 0.834},
       {kRegNetY1600MF, 77.95, 1.612},
       {kRegNetY3200MF, 78.948, 3.176},
       {kRegNetY8GF, 80.032, 8.473},
       {kConvNeXtTiny, 82.52, 4.456},
       {kConvNeXtSmall, 83.616, 8.684},
       {kConvNeXtBase, 84.062, 15.355},
       // timm's results/results-imagenet.csv or the model's card, and infer_gmacs of its
       // results/benchmark-infer-*.csv
       {kXception, 79.04, 8.4},
       {kMobileNetV4Small, 74.616, 0.25},
       {kMobileNetV4Medium, 80.858, 1.71},
       {kEfficientNetV2B0, 78.358, 0.73},
       {kEfficientNetV2B1, 79.462, 1.21},
       {kEfficientNetV2B2, 80.194, 1.72},
       {kEfficientNetV2B3, 81.97, 3.04},
       {kConvNeXtV2Atto, 77.76, 0.91},
       {kConvNeXtV2Femto, 79.338, 1.3},
       {kConvNeXtV2Pico, 81.086, 2.27},
       {kConvNeXtV2Nano, 82.664, 4.06},
       {kConvNeXtV2Tiny, 84.416, 7.39},
       {kVitTinyPatch16, 75.454, 1.26},
       {kVitSmallPatch16, 81.384, 4.61},
       {kVitBasePatch16, 84.532, 17.58},
       // the linear evaluation in DINOv2's README; operations at 224 pixels from `trainer models`
       {kDinoV2Small, 81.1, 6.1},
       {kDinoV2SmallReg, 80.9, 6.2},
       {kDinoV2Base, 84.5, 23.2},
       {kDinoV2BaseReg, 84.6, 23.5}});
}();

}  // namespace

std::vector<config::Backbone::Name> list_backbones_by_accuracy(bool on_cpu) {
  std::vector<PublishedBackbone> sorted(kPublished.begin(), kPublished.end());
  std::ranges::sort(sorted, [=](const PublishedBackbone& first, const PublishedBackbone& second) {
    const bool is_first_slow = on_cpu && first.gmacs > kMaxGmacsOnCpu;
    const bool is_second_slow = on_cpu && second.gmacs > kMaxGmacsOnCpu;
    if (is_first_slow != is_second_slow) return is_second_slow;
    return is_first_slow ? first.gmacs < second.gmacs : first.accuracy > second.accuracy;
  });
  std::vector<config::Backbone::Name> names;
  for (const PublishedBackbone& each : sorted) names.push_back(each.name);
  return names;
}

}  // namespace trainer::commands
