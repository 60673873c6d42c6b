// Which part of an image becomes which, and resizing to it.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// One axis: `input` pixels from `first` on become `size` pixels, of which `output` from `skip` on
// are computed.
struct ResizeAxis {
  int first = 0, input = 0;
  int size = 0;
  int skip = 0, output = 0;
  bool operator==(const ResizeAxis&) const = default;
};

// Separable resizing with Pillow's and torchvision's weights: triangle or Keys cubic (a = -0.5) at
// pixel centres, widened by the scale when shrinking with antialias. Integer arithmetic, the same
// on every processor; within 1 of Pillow, which however cuts a cubic's overshoot off between its
// passes. `out` is [vertical.output, horizontal.output, channels].
void resize(const Pixels& in, const ResizeAxis& vertical, const ResizeAxis& horizontal,
            config::Interpolation interpolation, bool antialias, std::uint8_t* out);

// Which part of an image becomes which: the crop of random_resized_crop, or the whole.
struct Geometry {
  ResizeAxis vertical, horizontal;
};
// fit: stretch and crop of an image of this size to [height, width]. crop is torchvision's
// Resize(shorter side / crop_fraction), CenterCrop.
Geometry fit_geometry(int height, int width, int out_height, int out_width, config::Fit fit,
                      double crop_fraction);
// The largest of 1, 2, 4, 8 at which every part that `geometry` cuts out is still at least as large
// as what it becomes.
int decode_reduction(const Geometry& geometry);
// The same geometry on the image decoded at 1 / reduce, which is [height, width].
Geometry reduced(const Geometry& geometry, int reduce, int height, int width);

}  // namespace trainer::data
