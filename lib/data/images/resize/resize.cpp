// The vertical pass is first, so that the pass that vectorises best reads the larger image. Each
// output row is finished while it is in the processor's cache.
#include "data/images/resize/resize.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <vector>

#include "data/images/resize/rows.h"
#include "data/images/resize/weights_cache.h"

namespace trainer::data {
namespace {

int clamp(std::int32_t value, int low, int high) { return std::clamp<int>(value, low, high); }

void vertical(const std::uint8_t* const* rows, const std::int16_t* weights, int taps, int shift,
              int count, std::int16_t* out) {
  const int down = shift - kRowFraction;
  for (int i = 0; i < count; ++i) {
    std::int32_t sum = 1 << (down - 1);
    for (int k = 0; k < taps; ++k) sum += weights[k] * rows[k][i];
    out[i] = static_cast<std::int16_t>(clamp(sum >> down, INT16_MIN, INT16_MAX));
  }
}

template <int channels>
void horizontal(const std::int16_t* row, const ResizeWeights& weights, int count,
                std::uint8_t* out) {
  const int shift = weights.shift + kRowFraction;
  const std::int16_t* values = weights.values.data();
  for (int x = 0; x < count; ++x, values += weights.taps) {
    const std::int16_t* from = row + channels * weights.first[x];
    for (int c = 0; c < channels; ++c) {
      std::int32_t sum = 1 << (shift - 1);
      for (int k = 0; k < weights.taps; ++k) sum += values[k] * from[channels * k + c];
      *out++ = static_cast<std::uint8_t>(clamp(sum >> shift, 0, 255));
    }
  }
}

void repeat_grey(const std::uint8_t* grey, int count, std::uint8_t* rgb) {
  for (int i = 0; i < count; ++i, rgb += 3) rgb[0] = rgb[1] = rgb[2] = grey[i];
}

// The limit of each of the two caches of a thread, enough for about a hundred sizes of photographs.
constexpr std::size_t kWeightsCacheBytes = 8 << 20;

ResizeAxis whole_axis(int input, int size) { return {0, input, size, 0, size}; }

// Rounds halves to even, like round() of Python in the crop of torchvision.
int round_half_even(double x) { return static_cast<int>(std::nearbyint(x)); }

// Returns `least` * side / other, rounded down; at most the largest int.
int scaled_side(int least, int side, int other) {
  return static_cast<int>(std::min<std::int64_t>(std::int64_t{least} * side / other, INT_MAX));
}

// Resizes each channel as a grey image. The kernels are for one and three channels.
void resize_bands(const Pixels& in, const ResizeAxis& vertical, const ResizeAxis& horizontal,
                  config::Interpolation interpolation, bool antialias, std::uint8_t* out) {
  const std::size_t channels = in.channels();
  const auto pixels =
      static_cast<std::size_t>(vertical.output) * static_cast<std::size_t>(horizontal.output);
  Pixels band(in.height(), in.width(), 1);
  std::vector<std::uint8_t> resized(pixels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t i = 0; i < band.size(); ++i) band.data()[i] = in.data()[i * channels + c];
    resize(band, vertical, horizontal, interpolation, antialias, resized.data());
    for (std::size_t i = 0; i < pixels; ++i) out[i * channels + c] = resized[i];
  }
}

// The side that Pillow's ImageOps.contain gives the shorter side of an image, at least 1.
int contained_side(int side, int other, int out_other) {
  const double ratio = static_cast<double>(side) / other;
  return std::max(1, round_half_even(ratio * out_other));
}

Geometry pad_geometry(int height, int width, int out_height, int out_width) {
  const std::int64_t wide = std::int64_t{width} * out_height;
  const std::int64_t high = std::int64_t{height} * out_width;
  if (wide > high) out_height = std::min(out_height, contained_side(height, width, out_width));
  if (wide < high) out_width = std::min(out_width, contained_side(width, height, out_height));
  return {whole_axis(height, out_height), whole_axis(width, out_width)};
}

}  // namespace

bool has_avx512_rows() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

const ResizeRows& resize_rows() {
  static const ResizeRows kRows = has_avx512_rows()                ? avx512_resize_rows()
                                  : __builtin_cpu_supports("avx2") ? avx2_resize_rows()
                                                                   : plain_resize_rows();
  return kRows;
}

ResizeRows plain_resize_rows() {
  return {vertical, horizontal<3>, horizontal<1>, repeat_grey, false};
}

void resize(const Pixels& in, const ResizeAxis& vertical_axis, const ResizeAxis& horizontal_axis,
            config::Interpolation interpolation, bool antialias, std::uint8_t* out) {
  const ResizeRows& kernels = resize_rows();
  const int channels = in.channels();
  if (channels != 1 && channels != 3) {
    return resize_bands(in, vertical_axis, horizontal_axis, interpolation, antialias, out);
  }
  // One cache per pass, as both weights are needed at once.
  thread_local WeightsCache down_cache(kWeightsCacheBytes), across_cache(kWeightsCacheBytes);
  const ResizeWeights& down =
      down_cache.get({vertical_axis, interpolation, antialias, kVerticalTaps, 0});
  const ResizeWeights& across =
      across_cache.get({horizontal_axis, interpolation, antialias,
                        channels == 3 ? kRgbTaps : kGreyTaps, kernels.groups ? channels : 0});
  // The vertical pass computes only the columns that an output reads.
  const int left = across.first.front() * channels;
  const int right = std::min(across.first.back() + across.taps, horizontal_axis.input) * channels;
  // Taps with the weight 0 read beyond the row.
  thread_local std::vector<std::int16_t> row;
  const int row_size = (across.first.back() + across.taps) * channels + kRowSlack;
  if (row.size() < static_cast<std::size_t>(row_size)) row.resize(row_size);
  std::vector<const std::uint8_t*> rows(down.taps);
  const std::size_t offset = horizontal_axis.first * channels + left;
  const auto horizontal_pass = channels == 3 ? kernels.horizontal_rgb : kernels.horizontal_grey;
  for (int y = 0; y < vertical_axis.output; ++y) {
    const std::size_t i = y;
    for (int k = 0; k < down.taps; ++k) {
      const int from = std::min(down.first[i] + k, vertical_axis.input - 1);
      rows[k] = in.row(vertical_axis.first + from) + offset;
    }
    const std::int16_t* weights = down.values.data() + i * static_cast<std::size_t>(down.taps);
    int taps = down.taps;
    while (taps > kVerticalTaps && weights[taps - 1] == 0 && weights[taps - 2] == 0) taps -= 2;
    kernels.vertical(rows.data(), weights, taps, down.shift, right - left, row.data() + left);
    horizontal_pass(row.data(), across, horizontal_axis.output, out);
    out += horizontal_axis.output * channels;
  }
}

Geometry fit_geometry(int height, int width, int out_height, int out_width, config::Fit fit,
                      double crop_fraction) {
  if (fit == config::Fit::kPad) return pad_geometry(height, width, out_height, out_width);
  if (fit == config::Fit::kStretch) {
    return {whole_axis(height, out_height), whole_axis(width, out_width)};
  }
  const int least_height = std::max(round_half_even(out_height / crop_fraction), out_height);
  const int least_width = std::max(round_half_even(out_width / crop_fraction), out_width);
  int new_height = least_height, new_width = least_width;
  // The side that needs the larger scale is exact; the other is rounded down, as in torchvision.
  if (std::int64_t{least_height} * width >= std::int64_t{least_width} * height) {
    new_width = std::max(scaled_side(least_height, width, height), least_width);
  } else {
    new_height = std::max(scaled_side(least_width, height, width), least_height);
  }
  const auto crop = [](int input, int size, int output) {
    return ResizeAxis{0, input, size, round_half_even((size - output) / 2.0), output};
  };
  return {crop(height, new_height, out_height), crop(width, new_width, out_width)};
}

int decode_reduction(const Geometry& geometry) {
  const auto enough = [](const ResizeAxis& axis, int reduce) {
    return axis.input / reduce >= axis.size;
  };
  for (const int reduce : {8, 4, 2}) {
    if (enough(geometry.vertical, reduce) && enough(geometry.horizontal, reduce)) return reduce;
  }
  return 1;
}

Geometry reduced(const Geometry& geometry, int reduce, const ReducedAxis& vertical,
                 const ReducedAxis& horizontal) {
  const auto shrink = [reduce](ResizeAxis axis, const ReducedAxis& image) {
    const int decoded_size = (image.full_size + reduce - 1) / reduce;
    // Fractions of 8 are exact.
    const auto place = [&](int full) {
      const double shift =
          image.is_mirrored ? decoded_size - static_cast<double>(image.full_size) / reduce : 0;
      return shift + static_cast<double>(full) / reduce;
    };
    const double begin = place(axis.first), end = place(axis.first + axis.input);
    axis.first = static_cast<int>(std::floor(begin));
    axis.input = static_cast<int>(std::ceil(end)) - axis.first;
    axis.cut_before = begin - axis.first;
    axis.cut_after = axis.first + axis.input - end;
    return axis;
  };
  if (reduce == 1) return geometry;
  return {shrink(geometry.vertical, vertical), shrink(geometry.horizontal, horizontal)};
}

}  // namespace trainer::data
