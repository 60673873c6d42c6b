// Operations of the policies of random changes, with Pillow's pixels.
#pragma once

#include "data/decode/pixels.h"

namespace trainer::data {

enum class PixelOp {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
  kInvert
};

// What torchvision's policies make of a Pillow image: nearest pixels, black beyond the edges. The
// magnitude is a slope (shear), pixels (translate), degrees (rotate), a factor less 1 (brightness
// to sharpness), bits (posterize) or a value (solarize); others ignore it. 1 or 3 channels.
void apply_op(PixelOp op, double magnitude, Pixels& image);

// All channels become the luma.
void remove_colour(Pixels& image);

// torchvision's gaussian_blur: the image mirrored beyond its edges, which are not repeated.
void gaussian_blur(int kernel_size, double sigma, Pixels& image);

// The part of the image that begins `top` and `left` pixels into the image with `padding` pixels of
// `fill` on every side.
void crop_padded(int padding, int top, int left, std::uint8_t fill, Pixels& image);

}  // namespace trainer::data
