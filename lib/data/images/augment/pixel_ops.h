// Operations of the policies of random changes, with the pixels of Pillow.
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
  kSolarizeAdd,
  kAutoContrast,
  kEqualize,
  kInvert
};

// Applies an operation as the policies of torchvision do to a Pillow image: nearest pixels, black
// beyond the edges. The magnitude is a slope (shear), pixels (translate), degrees (rotate), a
// factor minus 1 (brightness to sharpness), bits (posterize), a value (solarize) or what is added
// to values below 128 (solarize_add); the other operations ignore it. The image has 1 or 3
// channels.
void apply_op(PixelOp op, double magnitude, Pixels& image);

// Sets all channels to the luma.
void remove_colour(Pixels& image);

// Blurs like gaussian_blur of torchvision: the image is mirrored beyond its edges, which are not
// repeated.
void gaussian_blur(int kernel_size, double sigma, Pixels& image);

// Pads the image with `padding` pixels of `fill` on every side, and keeps the part of the old size
// that begins at row `top` and column `left`.
void crop_padded(int padding, int top, int left, std::uint8_t fill, Pixels& image);

}  // namespace trainer::data
