// Copies of pictures that were changed a little.
#include "commands/suspects/copies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/numbers/random.h"

namespace trainer::commands {
namespace {

struct Picture {
  int height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // grey
};

// Draws the picture of a function of the place, 0 to 1 each way, at any size.
Picture draw_picture(int height, int width,
                     const std::function<double(double y, double x)>& level) {
  Picture picture{height, width, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double value = level((y + 0.5) / height, (x + 0.5) / width);
      picture.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return picture;
}

// A dark chest with two lungs whose shapes differ a little from seed to seed.
std::function<double(double, double)> chest(std::uint64_t seed) {
  return [seed](double y, double x) {
    Random random(seed, Stream::kSynthetic);
    double level = 60;
    for (const double side : {0.3, 0.7}) {
      const double cx = side + 0.08 * (random.uniform() - 0.5), cy = 0.5 + 0.1 * random.uniform();
      const double size = 0.03 + 0.02 * random.uniform();
      level -= 45 * std::exp(-((x - cx) * (x - cx) + 0.4 * (y - cy) * (y - cy)) / size);
    }
    for (int rib = 0; rib < 6; ++rib) {
      const double height = 0.15 * rib + 0.1 * random.uniform();
      level += 25 * std::exp(-(y - height) * (y - height) / 0.001) * random.uniform();
    }
    return level;
  };
}

Picture add_noise(Picture picture, int levels) {
  Random random(9, Stream::kSynthetic);
  for (std::uint8_t& pixel : picture.pixels) {
    const int noise = static_cast<int>(random.below(static_cast<std::uint64_t>(2 * levels + 1)));
    pixel = static_cast<std::uint8_t>(std::clamp(pixel + noise - levels, 0, 255));
  }
  return picture;
}

PictureHash hash(const Picture& picture) {
  return hash_picture(picture.pixels, picture.height, picture.width, 1);
}

}  // namespace

TEST_CASE("hash_picture has the bits of a picture that rises and falls") {
  const PictureHash rising = hash(draw_picture(16, 18, [](double, double x) { return 200 * x; }));
  CHECK(rising.bits == ~std::uint64_t{0});
  CHECK(hash(draw_picture(16, 18, [](double, double x) { return 200 - 200 * x; })).bits == 0);
  const PictureHash half = hash(
      draw_picture(16, 18, [](double y, double x) { return y < 0.5 ? 200 * x : 200 - 200 * x; }));
  CHECK(half.bits == 0xFFFFFFFF00000000);
  CHECK(find_distance(half.bits, rising.bits) == 32);
  CHECK(rising.thumbnail.grey[0] < rising.thumbnail.grey[Thumbnail::kSide - 1]);
}

TEST_CASE("hash_picture: grey is the luma of colours and the mean of bands") {
  const std::vector<std::uint8_t> red{200, 0, 0}, bands{10, 20, 30, 40};
  CHECK(hash_picture(red, 1, 1, 3).thumbnail.grey[7] == 60);  // 0.299 * 200
  CHECK(hash_picture(bands, 1, 1, 4).thumbnail.grey[7] == 25);
}

TEST_CASE("find_copies finds resized and noisy copies, and no other dark X-rays") {
  std::vector<PictureHash> hashes;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    hashes.push_back(hash(draw_picture(96, 96, chest(seed))));
  }
  CHECK(find_copies(hashes).empty());
  hashes.push_back(hash(draw_picture(61, 75, chest(3))));                  // 40
  hashes.push_back(hash(add_noise(draw_picture(96, 96, chest(17)), 8)));   // 41
  hashes.push_back(hash(add_noise(draw_picture(160, 130, chest(3)), 4)));  // 42
  CHECK(find_copies(hashes) == std::vector<std::vector<std::size_t>>{{3, 40, 42}, {17, 41}});
}

TEST_CASE("find_copies: pictures without contrast are copies if they have the same level") {
  std::vector<PictureHash> hashes;
  for (const int level : {0, 120, 1, 200, 120}) {
    hashes.push_back(hash(draw_picture(20, 20, [&](double, double) { return level; })));
  }
  CHECK(find_copies(hashes) == std::vector<std::vector<std::size_t>>{{0, 2}, {1, 4}});
}

}  // namespace trainer::commands
