#include "data/images/augment/affine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace trainer::data {
namespace {

std::int64_t fixed_point(double value) {
  return static_cast<std::int64_t>(std::floor(value * 65536 + 0.5));
}

double to_15_digits(double value) { return std::nearbyint(value * 1e15) / 1e15; }

// A filter mixes kValues neighbouring values, kBefore of which precede the two around a position.
struct Bilinear {
  static constexpr int kValues = 2, kBefore = 0;
  static double mix(const std::array<double, kValues>& v, double at) {
    return v[0] + (v[1] - v[0]) * at;
  }
};
struct Bicubic {
  static constexpr int kValues = 4, kBefore = 1;
  static double mix(const std::array<double, kValues>& v, double at) {
    const double linear = v[2] - v[0];
    const double square = 2 * (v[0] - v[1]) + v[2] - v[3];
    const double cube = -v[0] + v[1] - v[2] + v[3];
    return v[1] + at * (linear + at * (square + at * cube));
  }
};

// The pixels of a line that a filter mixes, and the position between them.
template <class Filter>
struct Taps {
  Taps(double position, int size) : at(position - 0.5) {  // pixels are at their centres
    const double whole = std::floor(at);
    at -= whole;
    for (int i = 0; i < Filter::kValues; ++i) {
      pixels[i] = std::clamp(static_cast<int>(whole) - Filter::kBefore + i, 0, size - 1);
    }
  }
  std::array<int, Filter::kValues> pixels;
  double at;
};

template <class Filter>
void interpolate(const AffineMatrix& m, std::span<const std::uint8_t> fill, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  thread_local Pixels out;
  out.reset(height, width, channels);
  for (int y = 0; y < height; ++y) {
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < width; ++x, to += channels) {
      const double from_x = m.a * (x + 0.5) + m.b * (y + 0.5) + m.c;
      const double from_y = m.d * (x + 0.5) + m.e * (y + 0.5) + m.f;
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height) {
        std::memcpy(to, fill.data(), channels);
        continue;
      }
      const Taps<Filter> columns(from_x, width);
      const Taps<Filter> rows(from_y, height);
      for (int c = 0; c < channels; ++c) {
        std::array<double, Filter::kValues> lines;
        for (std::size_t i = 0; i < lines.size(); ++i) {
          const std::uint8_t* row = image.row(rows.pixels[i]) + c;
          std::array<double, Filter::kValues> values;
          for (std::size_t k = 0; k < values.size(); ++k)
            values[k] = row[columns.pixels[k] * channels];
          lines[i] = Filter::mix(values, columns.at);
        }
        // Pillow truncates.
        to[c] = static_cast<std::uint8_t>(std::clamp(Filter::mix(lines, rows.at), 0.0, 255.0));
      }
    }
  }
  std::swap(image, out);
}

}  // namespace

AffineMatrix make_rotation(double degrees, int height, int width) {
  degrees = std::fmod(degrees, 360);
  if (degrees < 0) degrees += 360;
  const double angle = -degrees * (std::numbers::pi / 180);
  AffineMatrix m;
  m.a = m.e = to_15_digits(std::cos(angle));
  m.b = to_15_digits(std::sin(angle));
  m.d = to_15_digits(-std::sin(angle));
  const double x = width / 2.0, y = height / 2.0;
  m.c = m.a * -x + m.b * -y + x;
  m.f = m.d * -x + m.e * -y + y;
  return m;
}

// Computes in 16.16 fixed-point numbers, as Pillow does.
void transform_nearest(const AffineMatrix& m, Pixels& image) {
  const int height = image.height(), width = image.width(), channels = image.channels();
  thread_local Pixels out;
  out.reset(height, width, channels);
  const std::int64_t step_x = fixed_point(m.a), step_y = fixed_point(m.d);
  const std::int64_t row_x = fixed_point(m.b), row_y = fixed_point(m.e);
  const std::int64_t first_x = fixed_point(m.c + m.a * 0.5 + m.b * 0.5);
  const std::int64_t first_y = fixed_point(m.f + m.d * 0.5 + m.e * 0.5);
  for (int y = 0; y < height; ++y) {
    std::uint8_t* to = out.row(y);
    std::int64_t fx = first_x + row_x * y, fy = first_y + row_y * y;
    for (int x = 0; x < width; ++x, to += channels, fx += step_x, fy += step_y) {
      const std::int64_t from_x = fx >> 16, from_y = fy >> 16;
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height) {
        std::memset(to, 0, channels);
      } else {
        std::memcpy(to, image.row(static_cast<int>(from_y)) + from_x * channels, channels);
      }
    }
  }
  std::swap(image, out);
}

void transform_filled(const AffineMatrix& matrix, config::Interpolation interpolation,
                      std::span<const std::uint8_t> fill, Pixels& image) {
  switch (interpolation) {
    case config::Interpolation::kBilinear:
      return interpolate<Bilinear>(matrix, fill, image);
    case config::Interpolation::kBicubic:
      return interpolate<Bicubic>(matrix, fill, image);
  }
}

}  // namespace trainer::data
