// Affine transforms as Keras's random layers compute them with `fill_mode="reflect"`.
#pragma once

#include "data/decode/pixels.h"

namespace trainer::data {

// Output (x, y), relative to the centre, reads input (a x + b y + tx, c x + d y + ty).
struct CentredAffine {
  float a = 1, b = 0, c = 0, d = 1, tx = 0, ty = 0;
};

// Interpolates bilinearly in an image that is mirrored beyond its edges, whose pixels are repeated.
// Positions are computed in float32; values are rounded to the nearest.
void transform_reflected(const CentredAffine& matrix, Pixels& image);

}  // namespace trainer::data
