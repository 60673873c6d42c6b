#include "data/images/augment/reflected.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/numbers/random.h"

namespace trainer::data {
namespace {

Pixels noise(int height, int width, int channels) {
  Pixels image(height, width, channels);
  Random random(7, Stream::kAugment);
  for (std::size_t i = 0; i < image.size(); ++i) {
    image.data()[i] = static_cast<std::uint8_t>(random.below(256));
  }
  return image;
}

// Reads the image of edges that are repeated and mirrored by walking to the pixel.
double reflected_pixel(const Pixels& image, std::int64_t y, std::int64_t x, int channel) {
  const auto inside = [](std::int64_t i, std::int64_t size) {
    while (i < 0 || i >= size) i = i < 0 ? -1 - i : 2 * size - 1 - i;
    return static_cast<int>(i);
  };
  const int row = inside(y, image.height()), column = inside(x, image.width());
  return image.row(row)[column * image.channels() + channel];
}

double expected_value(const Pixels& image, const CentredAffine& m, int y, int x, int channel) {
  const double cx = (image.width() - 1) / 2.0, cy = (image.height() - 1) / 2.0;
  const double at_x = m.a * (x - cx) + m.b * (y - cy) + m.tx + cx;
  const double at_y = m.c * (x - cx) + m.d * (y - cy) + m.ty + cy;
  const auto left = static_cast<std::int64_t>(std::floor(at_x));
  const auto top = static_cast<std::int64_t>(std::floor(at_y));
  double sum = 0;
  for (const int dy : {0, 1}) {
    for (const int dx : {0, 1}) {
      const double share_y = 1 - std::abs(at_y - static_cast<double>(top + dy));
      const double share_x = 1 - std::abs(at_x - static_cast<double>(left + dx));
      sum += share_y * share_x * reflected_pixel(image, top + dy, left + dx, channel);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("transform_reflected interpolates the mirrored image for any size, matrix and channels") {
  const CentredAffine matrices[] = {
      {1, 0, 0, 1, 0, 0},           {0.866f, -0.5f, 0.5f, 0.866f, 0, 0},
      {1, 0, 0, 1, -30.25f, 12.5f}, {0.5f, 0, 0, 0.5f, 0, 0},
      {-1, 0, 0, -1, 0, 0},         {9.5f, 0, 0, 9.5f, 0, 0},
      {0, -1, 1, 0, 0.375f, -70}};
  const struct { int height, width; } sizes[] = {{20, 70}, {64, 64}, {33, 1}, {1, 129}};
  for (const auto& size : sizes) {
    for (const int channels : {1, 3, 4, 6}) {
      const Pixels image = noise(size.height, size.width, channels);
      for (const CentredAffine& matrix : matrices) {
        Pixels out = noise(size.height, size.width, channels);
        transform_reflected(matrix, out);
        double largest = 0;
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width; ++x) {
            for (int c = 0; c < channels; ++c) {
              const double found = out.row(y)[x * channels + c];
              largest = std::max(largest, std::abs(found - expected_value(image, matrix, y, x, c)));
            }
          }
        }
        CAPTURE(size.height);
        CAPTURE(size.width);
        CAPTURE(channels);
        CAPTURE(matrix.a);
        CHECK(largest < 0.51);  // a half by rounding, the rest by positions in float32
      }
    }
  }
}

TEST_CASE("transform_reflected keeps an image of one colour, however far it reads") {
  Pixels image(8, 8, 3);
  std::fill_n(image.data(), image.size(), std::uint8_t{7});
  transform_reflected({1e9f, 0, 0, 1e9f, 0, 0}, image);
  transform_reflected({1, 0, 0, 1, 3e9f, -3e9f}, image);
  CHECK(std::count(image.data(), image.data() + image.size(), 7) == 8 * 8 * 3);
}

}  // namespace trainer::data
