// timm's RandAugment (auto_augment.py): its operations, and what they do at each magnitude.
// torchvision's is an entry of its own, `rand_augment`: it has other operations (identity, but not
// invert and solarize_add), another scale (31 bins instead of 0 to 10), the nearest pixel in place
// of bilinear or bicubic interpolation, and black in place of the data's mean. Keys such as mstd
// and inc in one entry for both would select between two tables of operations without a name for
// either.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/numbers/random.h"
#include "config/sections/augmentation.h"
#include "config/sections/data.h"
#include "data/decode/pixels.h"
#include "data/images/augment/denormalizer.h"
#include "data/images/augment/pixel_ops.h"

namespace trainer::data {

// The operations in timm's order; each is drawn with the same probability.
inline constexpr std::array kTimmOps = [] {
  using enum PixelOp;
  return std::array{kAutoContrast, kEqualize,    kInvert, kRotate,     kPosterize,
                    kSolarize,     kSolarizeAdd, kColor,  kContrast,   kBrightness,
                    kSharpness,    kShearX,      kShearY, kTranslateX, kTranslateY};
}();

struct TimmStrength {
  double magnitude = 0;        // 10 is full strength
  bool is_increasing = false;  // no operation is weaker at a higher magnitude (inc1)
  bool is_negative = false;    // the drawn sign of operations that have two directions
};
// Returns the argument of an operation of timm: degrees counter-clockwise (rotate), the bits that
// are kept (posterize), the value from which on pixels are inverted (solarize), what is added to
// values below 128 (solarize_add), a factor (color, contrast, brightness, sharpness), a slope
// (shear) or a share of the side (translate). 0 for the other operations, which have none.
double find_argument(PixelOp op, const TimmStrength& strength);

// Draws the magnitude of an operation: N(magnitude, magnitude_std), cut to [0, max_magnitude].
double draw_magnitude(const config::TimmRandAugment& policy, Random& random);

// Applies an operation as timm does to a Pillow image of 1 or 3 channels. Moved images are
// interpolated, and `fill` has a value per channel for what is beyond their edges.
// posterize with fewer than 1 bit makes the image black, as Pillow did before version 13.
void apply_timm_op(PixelOp op, double argument, config::Interpolation interpolation,
                   std::span<const std::uint8_t> fill, Pixels& image);

// Applies the whole policy; what is beyond edges has the pixels that are 0 after normalization. It
// draws the same count of numbers for every image.
void apply_policy(const config::TimmRandAugment& policy, const Denormalizer& denormalizer,
                  Random& random, Pixels& image);

}  // namespace trainer::data
