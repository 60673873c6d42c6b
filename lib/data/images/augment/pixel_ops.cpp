#include "data/images/augment/pixel_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <span>
#include <vector>

#include "data/images/augment/affine.h"

namespace trainer::data {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

// Rounds the slope as torchvision does, which passes it as an angle in degrees.
double slope(double magnitude) {
  constexpr double kDegrees = 180 / std::numbers::pi;
  return std::tan(std::atan(magnitude) * kDegrees * (std::numbers::pi / 180));
}

// Blends two values as Pillow does, which truncates the result.
std::uint8_t blend(int from, int to, float share) {
  const float value = static_cast<float>(from) + share * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// Sets each value of each pixel to use(value, luma of the pixel).
template <class Use>
void for_each_value(Pixels& image, const Use& use) {
  const int channels = image.channels();
  std::uint8_t* end = image.data() + image.size();
  for (std::uint8_t* pixel = image.data(); pixel < end; pixel += channels) {
    const int grey = channels == 3 ? luma(pixel[0], pixel[1], pixel[2]) : pixel[0];
    for (int c = 0; c < channels; ++c) pixel[c] = use(pixel[c], grey);
  }
}

void brighten(float factor, Pixels& image) {
  for_each_value(image, [=](int value, int) { return blend(0, value, factor); });
}

void colour(float factor, Pixels& image) {
  for_each_value(image, [=](int value, int grey) { return blend(grey, value, factor); });
}

void contrast(float factor, Pixels& image) {
  std::int64_t sum = 0;
  for_each_value(image, [&](std::uint8_t value, int grey) {
    sum += grey;
    return value;
  });
  const auto values =
      static_cast<double>(image.size());  // the sum has the luma of a pixel once per channel
  const int mean = static_cast<int>(static_cast<double>(sum) / values + 0.5);
  for_each_value(image, [=](int value, int) { return blend(mean, value, factor); });
}

// Moves values away from the mean of the neighbours with weights 1, and 5 in the middle; pixels at
// the edges are kept.
void sharpen(float factor, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  if (height < 3 || width < 3) return;
  thread_local Pixels out;
  out.reset(height, width, channels);
  std::memcpy(out.data(), image.data(), image.size());
  const auto row_bytes = static_cast<std::ptrdiff_t>(image.row_bytes());
  for (int y = 1; y < height - 1; ++y) {
    const std::uint8_t* in = image.row(y);
    std::uint8_t* to = out.row(y);
    for (int i = channels; i < (width - 1) * channels; ++i) {
      int sum = 4 * in[i];
      for (const std::ptrdiff_t row : {-row_bytes, std::ptrdiff_t{0}, row_bytes}) {
        sum += in[i - channels + row] + in[i + row] + in[i + channels + row];
      }
      to[i] = blend((2 * sum + 13) / 26, in[i], factor);
    }
  }
  std::swap(image, out);
}

void look_up(const Table& table, int channel, Pixels& image) {
  const std::size_t step = image.channels();
  for (std::size_t i = channel; i < image.size(); i += step) {
    image.data()[i] = table[image.data()[i]];
  }
}

Histogram histogram(const Pixels& image, int channel) {
  Histogram counts{};
  const std::size_t step = image.channels();
  for (std::size_t i = channel; i < image.size(); i += step) {
    ++counts[image.data()[i]];
  }
  return counts;
}

void auto_contrast(int channel, Pixels& image) {
  const Histogram counts = histogram(image, channel);
  int low = 0, high = 255;
  while (low < 255 && counts[low] == 0) ++low;
  while (high > 0 && counts[high] == 0) --high;
  if (high <= low) return;
  const double scale = 255.0 / (high - low), offset = -low * scale;
  Table table;
  for (int i = 0; i < 256; ++i) {
    const int value = static_cast<int>(i * scale + offset);
    table[i] = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
  }
  look_up(table, channel, image);
}

void equalize(int channel, Pixels& image) {
  const Histogram counts = histogram(image, channel);
  std::int64_t sum = 0, last = 0;
  for (const std::int64_t count : counts) {
    sum += count;
    if (count > 0) last = count;
  }
  const std::int64_t step = (sum - last) / 255;
  if (step == 0) return;
  Table table;
  std::int64_t n = step / 2;
  for (std::size_t i = 0; i < 256; ++i) {
    table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(n / step, 255));
    n += counts[i];
  }
  look_up(table, channel, image);
}

// Returns the index of pixel i of a line that is mirrored beyond its ends, which are not repeated.
int reflect(int i, int size) {
  if (size == 1) return 0;
  const int period = 2 * (size - 1);
  i %= period;
  if (i < 0) i += period;
  return i < size ? i : period - i;
}

std::vector<float> gaussian(int size, double sigma) {
  std::vector<float> weights(size);
  const float half = static_cast<float>(size - 1) * 0.5f, scale = static_cast<float>(sigma);
  float sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float x = (static_cast<float>(i) - half) / scale;
    weights[i] = std::exp(-0.5f * x * x);
    sum += weights[i];
  }
  for (float& weight : weights) {
    weight /= sum;
    // Smaller ones change no pixel, and products of subnormal numbers are slow.
    if (weight < 1e-30f) weight = 0;
  }
  return weights;
}

void add_scaled(float factor, std::span<const float> values, float* sums) {
  if (factor == 0) return;
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += factor * values[i];
}

// Rounds a value of [0, 255.5) to the nearest integer, of two equally near ones to the even one.
std::uint8_t round_to_byte(float value) {
  constexpr float kNoFraction = 1 << 23;  // the smallest float whose successor is one more
  return static_cast<std::uint8_t>(static_cast<int>(value + kNoFraction - kNoFraction));
}

}  // namespace

void apply_op(PixelOp op, double magnitude, Pixels& image) {
  const auto factor = static_cast<float>(1.0 + magnitude);
  switch (op) {
    case PixelOp::kIdentity:
      return;
    case PixelOp::kShearX:
      return transform_nearest({1, slope(magnitude), 0, 0, 1, 0}, image);
    case PixelOp::kShearY:
      return transform_nearest({1, 0, 0, slope(magnitude), 1, 0}, image);
    case PixelOp::kTranslateX:
      return transform_nearest({1, 0, -std::trunc(magnitude), 0, 1, 0}, image);
    case PixelOp::kTranslateY:
      return transform_nearest({1, 0, 0, 0, 1, -std::trunc(magnitude)}, image);
    case PixelOp::kRotate:
      return transform_nearest(make_rotation(magnitude, image.height(), image.width()), image);
    case PixelOp::kBrightness:
      return brighten(factor, image);
    case PixelOp::kColor:
      return colour(factor, image);
    case PixelOp::kContrast:
      return contrast(factor, image);
    case PixelOp::kSharpness:
      return sharpen(factor, image);
    case PixelOp::kPosterize: {
      const int mask = ~((1 << (8 - static_cast<int>(magnitude))) - 1);
      return for_each_value(
          image, [=](int value, int) { return static_cast<std::uint8_t>(value & mask); });
    }
    case PixelOp::kSolarize:
      return for_each_value(image, [=](int value, int) {
        return static_cast<std::uint8_t>(value < magnitude ? value : 255 - value);
      });
    case PixelOp::kSolarizeAdd:
      return for_each_value(image, [=](int value, int) {
        const int sum = std::min(value + static_cast<int>(magnitude), 255);
        return static_cast<std::uint8_t>(value < 128 ? sum : value);
      });
    case PixelOp::kAutoContrast:
      for (int c = 0; c < image.channels(); ++c) auto_contrast(c, image);
      return;
    case PixelOp::kEqualize:
      for (int c = 0; c < image.channels(); ++c) equalize(c, image);
      return;
    case PixelOp::kInvert:
      return for_each_value(image,
                            [](int value, int) { return static_cast<std::uint8_t>(255 - value); });
  }
}

void remove_colour(Pixels& image) {
  for_each_value(image, [](int, int grey) { return static_cast<std::uint8_t>(grey); });
}

void gaussian_blur(int kernel_size, double sigma, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  const int half = kernel_size / 2;
  const std::vector<float> weights = gaussian(kernel_size, sigma);
  const std::size_t row = image.row_bytes();
  std::vector<float> rows(image.size());               // blurred along x
  std::vector<float> line(row + 2 * half * channels);  // a row with its mirrored edges
  for (int y = 0; y < height; ++y) {
    float* to = line.data();
    for (int x = -half; x < width + half; ++x) {
      const std::uint8_t* pixel = image.row(y) + reflect(x, width) * channels;
      to = std::copy_n(pixel, channels, to);
    }
    float* sums = rows.data() + static_cast<std::size_t>(y) * row;
    for (int k = 0; k < kernel_size; ++k) {
      add_scaled(weights[k], {line.data() + k * channels, row}, sums);
    }
  }
  std::vector<float> sums(row);
  for (int y = 0; y < height; ++y) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int k = 0; k < kernel_size; ++k) {
      const auto from = static_cast<std::size_t>(reflect(y + k - half, height));
      add_scaled(weights[k], {rows.data() + from * row, row}, sums.data());
    }
    std::transform(sums.begin(), sums.end(), image.row(y), round_to_byte);
  }
}

void crop_padded(int padding, int top, int left, std::uint8_t fill, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  thread_local Pixels out;
  out.reset(height, width, channels);
  std::memset(out.data(), fill, out.size());
  const int dy = top - padding, dx = left - padding;
  const int first_x = std::max(0, -dx), last_x = std::min(width, width - dx);
  for (int y = std::max(0, -dy); y < std::min(height, height - dy) && first_x < last_x; ++y) {
    std::memcpy(out.row(y) + first_x * channels, image.row(y + dy) + (first_x + dx) * channels,
                (last_x - first_x) * channels);
  }
  std::swap(image, out);
}

}  // namespace trainer::data
