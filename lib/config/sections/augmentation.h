// Random changes of training images: data.train.augment.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"

namespace trainer::config {

class FieldVisitor;

// Random changes of a training image, applied in the order of the list. Ranges and conventions are
// torchvision's transforms of the same names; rotation, shift and zoom are Keras's layers
// (bilinear, the image mirrored beyond its edges).
struct RandomFlipHorizontal {
  double probability = 0.5;
};
struct RandomFlipVertical {
  double probability = 0.5;
};
// Must be the first entry, because it chooses the part of the file's image.
struct RandomResizedCrop {
  std::vector<double> scale{0.08, 1};        // share of the area
  std::vector<double> ratio{0.75, 4.0 / 3};  // width / height
};
struct RandomCrop {
  std::int64_t padding = 4;  // pixels on every side, added before the crop to the image's size
  std::int64_t fill = 0;     // value of these pixels
};
struct RandomGrayscale {
  double probability = 0.1;
};
struct GaussianBlur {
  std::int64_t kernel_size = 3;       // odd
  std::vector<double> sigma{0.1, 2};  // drawn between these
};
// torchvision's policies of random operations, with their tables and Pillow's pixels.
struct RandAugment {
  std::int64_t num_ops = 2, magnitude = 9, num_magnitude_bins = 31;
};
struct TrivialAugment {
  std::int64_t num_magnitude_bins = 31;
};
struct AutoAugment {
  enum class Policy { kImageNet, kCifar10, kSvhn } policy = Policy::kImageNet;
};
// timm's RandAugment, `--aa rand-...`; its name of a field is in parentheses.
struct TimmRandAugment {
  double magnitude = 10;      // (m)
  std::int64_t num_ops = 2;   // (n)
  double probability = 0.5;   // (p)
  double magnitude_std = 0;   // (mstd)
  double max_magnitude = 10;  // (mmax)
  bool increasing = false;    // (inc)
};
struct RandomRotation {
  double degrees = 0;  // required; the angle is uniform in [-degrees, degrees]
};
struct RandomShift {
  double height = 0.1, width = 0.1;  // largest shares of the image's sides
};
struct RandomZoom {
  double factor = 0.1;  // multiplies the size by a number in [1 - factor, 1 + factor]
};
struct Brightness {
  double factor = 0.2;  // multiplies pixels by a number in [1 - factor, 1 + factor]
};
struct Contrast {
  double factor = 0.2;
};
struct Saturation {
  double factor = 0.2;
};
struct Hue {
  double factor = 0.05;  // share of the circle, at most 0.5
};
struct RandomErasing {
  // The erased pixels. kValue: `value`. The others are timm's modes, numbers of the normalized
  // image. kConst: 0. kRand: a number from N(0, 1) for each channel. kPixel: one for each pixel and
  // channel.
  enum class Mode { kValue, kConst, kRand, kPixel };
  double probability = 0.5;
  std::vector<double> scale{0.02, 0.33};
  std::vector<double> ratio{0.3, 3.3};
  Mode mode = Mode::kValue;
  std::int64_t value = 0;
};
// MixUp and CutMix mix images and labels with those of another training sample. They must be the
// last entries; of several, one is drawn for each sample.
struct MixUp {
  double alpha = 1;                         // the share of the sample itself is Beta(alpha, alpha)
  std::optional<std::int64_t> epochs = {};  // the first ones, after which it ends; all if not set
};
struct CutMix {
  double alpha = 1;  // the area of the other image's rectangle is 1 - Beta(alpha, alpha)
  std::optional<std::int64_t> epochs = {};  // as in MixUp
};
using AugmentationKind =
    std::variant<RandomFlipHorizontal, RandomFlipVertical, RandomResizedCrop, RandomRotation,
                 RandomShift, RandomZoom, Brightness, Contrast, Saturation, Hue, RandomErasing,
                 MixUp, CutMix, RandomCrop, RandomGrayscale, GaussianBlur, RandAugment,
                 TrivialAugment, AutoAugment, TimmRandAugment>;
struct Augmentation {
  AugmentationKind kind;
  SourceLoc loc;
};

// Returns whether the augmentation mixes two samples.
bool is_mixing(const Augmentation& augmentation);

constexpr auto spellings(AutoAugment::Policy) {
  using enum AutoAugment::Policy;
  return std::to_array<Spelling<AutoAugment::Policy>>(
      {{kImageNet, "imagenet"}, {kCifar10, "cifar10"}, {kSvhn, "svhn"}});
}
constexpr auto spellings(RandomErasing::Mode) {
  using enum RandomErasing::Mode;
  return std::to_array<Spelling<RandomErasing::Mode>>(
      {{kValue, "value"}, {kConst, "const"}, {kRand, "rand"}, {kPixel, "pixel"}});
}
void fields(FieldVisitor& v, Augmentation& s);

}  // namespace trainer::config
