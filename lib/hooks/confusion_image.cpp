#include "hooks/confusion_image.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

namespace trainer::hooks {
namespace {

struct Colour {
  std::uint8_t red, green, blue;
};

// From white to full colour; the square root shows small shares, which are the interesting ones.
Colour shade(double share, bool right) {
  const double depth = std::sqrt(share);
  const auto fade = [&](int full) { return static_cast<std::uint8_t>(255 - depth * (255 - full)); };
  return right ? Colour{fade(20), fade(70), fade(160)} : Colour{fade(190), fade(30), fade(30)};
}

}  // namespace

Picture draw_confusion(const engine::Metrics& metrics) {
  const auto n = static_cast<int>(metrics.classes);
  const int cell = std::clamp(480 / std::max(n, 1), 2, 40);
  Picture picture{n * cell, n * cell, {}};
  std::vector<Colour> pixels(static_cast<std::size_t>(picture.width) *
                             static_cast<std::size_t>(picture.height));
  for (int row = 0; row < n; ++row) {
    const auto* counts = metrics.confusion.data() + static_cast<std::ptrdiff_t>(row) * n;
    const std::int64_t total = std::accumulate(counts, counts + n, std::int64_t{0});
    for (int column = 0; column < n; ++column) {
      const double share =
          total > 0 ? static_cast<double>(counts[column]) / static_cast<double>(total) : 0;
      const Colour colour = shade(share, row == column);
      for (int y = row * cell; y < (row + 1) * cell; ++y) {
        const auto first =
            pixels.begin() + static_cast<std::ptrdiff_t>(y) * picture.width + column * cell;
        std::fill(first, first + cell, colour);
      }
    }
  }
  const auto append = [](void* to, void* data, int size) {
    auto* png = static_cast<Bytes*>(to);
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    png->insert(png->end(), bytes, bytes + size);
  };
  stbi_write_png_to_func(append, &picture.png, picture.width, picture.height, 3, pixels.data(),
                         picture.width * 3);
  return picture;
}

}  // namespace trainer::hooks
