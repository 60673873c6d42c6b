// Resizes parts of images.
#pragma once

#include <cstdint>

#include "config/sections/data.h"
#include "data/decode/pixels.h"

namespace trainer::data {

// One axis: `input` pixels from `first` on are resized to `size` pixels, of which `output` pixels
// from `skip` on are computed. Of the first and the last input pixel, the fractions `cut_before`
// and `cut_after` (at least 0, less than 1) are not part of what is resized.
struct ResizeAxis {
  int first = 0, input = 0;
  int size = 0;
  int skip = 0, output = 0;
  double cut_before = 0, cut_after = 0;
  bool operator==(const ResizeAxis&) const = default;
};

// Resizes with the separable weights of Pillow and torchvision: triangle or Keys cubic (a = -0.5)
// at pixel centres, widened by the scale when shrinking with antialias. The arithmetic is in
// integers, so that all processors give the same result. The result is within 1 of Pillow, except
// where Pillow clips the overshoot of a cubic between its passes. `out` is [vertical.output,
// horizontal.output, channels] with any number of channels.
void resize(const Pixels& in, const ResizeAxis& vertical, const ResizeAxis& horizontal,
            config::Interpolation interpolation, bool antialias, std::uint8_t* out);

// The part of an image that is resized, and its size afterwards.
struct Geometry {
  ResizeAxis vertical, horizontal;
};
// Returns how data.fit fits an image of this size to [out_height, out_width]. Fit::kCrop is
// Resize(shorter side / crop_fraction), CenterCrop of torchvision. Fit::kPad is ImageOps.contain of
// Pillow: one axis may have fewer outputs than given, and borders belong on both sides of it.
Geometry fit_geometry(int height, int width, int out_height, int out_width, config::Fit fit,
                      double crop_fraction);
// Returns the largest n of 1, 2, 4 and 8 at which the part of the image at 1 / n of its size is at
// least as large as after resizing.
int decode_reduction(const Geometry& geometry);
// An axis of an image that is decoded at 1 / n of its size, rounded up: the last pixel of the file
// may stand for fewer than n pixels. It comes first where the orientation mirrors the axis.
struct ReducedAxis {
  int full_size = 0;
  bool is_mirrored = false;
};
// Returns the same geometry for the image decoded at 1 / reduce: exactly the same part of it, so
// that an image is not stretched by up to 7 pixels where its size is not a multiple of 8, and
// neither is a crop at its end.
Geometry reduced(const Geometry& geometry, int reduce, const ReducedAxis& vertical,
                 const ReducedAxis& horizontal);

}  // namespace trainer::data
