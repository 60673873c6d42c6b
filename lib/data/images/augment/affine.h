// Affine transforms of images, with the pixels of Pillow's Image.transform() and Image.rotate().
#pragma once

#include <cstdint>
#include <span>

#include "config/sections/data.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// Output (x, y) reads input (a x + b y + c, d x + e y + f), both relative to corners.
struct AffineMatrix {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

// Returns the rotation about the centre of an image, counter-clockwise.
AffineMatrix make_rotation(double degrees, int height, int width);

// Takes the nearest pixels, and black beyond the edges.
void transform_nearest(const AffineMatrix& matrix, Pixels& image);
// Interpolates within the image, whose edge pixels are repeated, and sets what is beyond its edges
// to `fill`, which has a value per channel.
void transform_filled(const AffineMatrix& matrix, config::Interpolation interpolation,
                      std::span<const std::uint8_t> fill, Pixels& image);

}  // namespace trainer::data
