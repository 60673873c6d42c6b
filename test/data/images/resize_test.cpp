#include "data/images/resize/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/files/files.h"
#include "base/numbers/random.h"
#include "data/images/pillow_image.h"
#include "data/images/resize/rows.h"
#include "data/images/resize/weights_cache.h"
#include "support/source_files.h"

namespace trainer::data {
namespace {

using config::Interpolation;

std::vector<std::uint8_t> resized(const Pixels& image, const Geometry& geometry,
                                  Interpolation interpolation, bool antialias) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(
      geometry.vertical.output * geometry.horizontal.output * image.channels()));
  resize(image, geometry.vertical, geometry.horizontal, interpolation, antialias, out.data());
  return out;
}

}  // namespace

TEST_CASE("resize has the pixels of Pillow within one level") {
  std::istringstream table(read_text_file(test::source_file("test/data/images/pillow_resize.txt")));
  std::string name;
  int channels = 0, height = 0, width = 0, out_height = 0, out_width = 0, cases = 0;
  while (table >> name >> channels >> height >> width >> out_height >> out_width) {
    CAPTURE(concat(name, " ", channels, " ", height, " ", width, " ", out_height, " ", out_width));
    const Pixels image = make_pillow_image(height, width, channels);
    const Geometry geometry =
        fit_geometry(height, width, out_height, out_width, config::Fit::kStretch, 1);
    const auto found =
        resized(image, geometry,
                name == "bicubic" ? Interpolation::kBicubic : Interpolation::kBilinear, true);
    int worst = 0;
    for (const std::uint8_t value : found) {
      int expected = -1;
      table >> expected;
      worst = std::max(worst, std::abs(expected - value));
    }
    CHECK(worst <= 1);
    ++cases;
  }
  CHECK(cases == 24);
}

TEST_CASE("resize without antialias is bilinear between the two nearest pixel centres") {
  for (const int channels : {1, 3}) {
    const Pixels image = make_pillow_image(37, 53, channels);
    const Geometry geometry = fit_geometry(37, 53, 11, 70, config::Fit::kStretch, 1);
    const auto found = resized(image, geometry, Interpolation::kBilinear, false);
    int worst = 0;
    std::size_t i = 0;
    const auto clamp = [](int v, int size) { return std::min(std::max(v, 0), size - 1); };
    for (int y = 0; y < 11; ++y) {
      for (int x = 0; x < 70; ++x) {
        for (int c = 0; c < channels; ++c) {
          const double fy = (y + 0.5) * 37 / 11 - 0.5, fx = (x + 0.5) * 53 / 70 - 0.5;
          const int y0 = static_cast<int>(std::floor(fy)), x0 = static_cast<int>(std::floor(fx));
          const auto at = [&](int dy, int dx) {
            return image.row(clamp(y0 + dy, 37))[clamp(x0 + dx, 53) * channels + c];
          };
          const double wy = fy - y0, wx = fx - x0;
          const double expected = (1 - wy) * ((1 - wx) * at(0, 0) + wx * at(0, 1)) +
                                  wy * ((1 - wx) * at(1, 0) + wx * at(1, 1));
          worst = std::max(worst, std::abs(static_cast<int>(std::lround(expected)) - found[i++]));
        }
      }
    }
    CHECK(worst <= 1);
  }
}

namespace {

void check_vector_loops(const ResizeRows& fast) {
  const ResizeRows plain = plain_resize_rows();
  Random random(1, Stream::kSynthetic);
  for (const int count : {1, 5, 31, 32, 33, 63, 64, 65, 100, 224}) {
    for (const int taps : {2, 4, 6}) {
      std::vector<std::vector<std::uint8_t>> rows(static_cast<std::size_t>(taps));
      std::vector<const std::uint8_t*> pointers;
      std::vector<std::int16_t> weights;
      for (auto& row : rows) {
        for (int i = 0; i < count; ++i) row.push_back(static_cast<std::uint8_t>(random.below(256)));
        pointers.push_back(row.data());
        weights.push_back(static_cast<std::int16_t>(random.below(20000)) - 3000);
      }
      std::vector<std::int16_t> a(static_cast<std::size_t>(count)), b = a;
      plain.vertical(pointers.data(), weights.data(), taps, 15, count, a.data());
      fast.vertical(pointers.data(), weights.data(), taps, 15, count, b.data());
      CHECK(a == b);
    }
    for (const int channels : {1, 3}) {
      ResizeWeights weights;
      weights.taps = 8;
      weights.shift = 14;
      std::vector<std::int16_t> row;
      for (int i = 0; i < count; ++i) {
        weights.first.push_back(i * 3 / 2);
        for (int k = 0; k < 8; ++k) {
          weights.values.push_back(static_cast<std::int16_t>(random.below(6000)) - 1000);
        }
      }
      for (int i = 0; i < (2 * count + 8) * channels + kRowSlack; ++i) {
        row.push_back(static_cast<std::int16_t>(random.below(16000)));
      }
      make_groups(weights, channels);
      CHECK(weights.grouped);
      std::vector<std::uint8_t> a(static_cast<std::size_t>(count * channels)), b = a;
      (channels == 3 ? plain.horizontal_rgb : plain.horizontal_grey)(row.data(), weights, count,
                                                                     a.data());
      (channels == 3 ? fast.horizontal_rgb : fast.horizontal_grey)(row.data(), weights, count,
                                                                   b.data());
      CHECK(a == b);
    }
  }
  std::vector<std::uint8_t> grey(100), a(300), b(300);
  for (auto& value : grey) value = static_cast<std::uint8_t>(random.below(256));
  plain.repeat_grey(grey.data(), 100, a.data());
  fast.repeat_grey(grey.data(), 100, b.data());
  CHECK(a == b);
}

}  // namespace

TEST_CASE("resize: vector loops give the results of the scalar loops bit by bit") {
  if (__builtin_cpu_supports("avx2")) check_vector_loops(avx2_resize_rows());
  if (has_avx512_rows()) check_vector_loops(avx512_resize_rows());
}

TEST_CASE("make_groups: a row is grouped if 16 values lie close together") {
  const auto grouped = [](int step, int channels) {
    ResizeWeights weights;
    weights.taps = 2;
    for (int i = 0; i < 40; ++i) {
      weights.first.push_back(i * step);
      weights.values.insert(weights.values.end(), 2, 0);
    }
    make_groups(weights, channels);
    return weights.grouped;
  };
  CHECK(grouped(4, 1));
  CHECK(!grouped(5, 1));
  CHECK(grouped(3, 3));
  CHECK(!grouped(4, 3));
}

TEST_CASE("resize: cached weights give the pixels of a resize without a cache") {
  // One height and ever new widths: weights that are used again lie beside some that are made now.
  for (int width = 30; width < 130; ++width) {
    const Pixels image = make_pillow_image(47, width, 3);
    const Geometry geometry = fit_geometry(47, width, 40, 9, config::Fit::kStretch, 1);
    const auto found = resized(image, geometry, Interpolation::kBilinear, true);
    std::vector<std::uint8_t> alone;
    std::thread([&] { alone = resized(image, geometry, Interpolation::kBilinear, true); }).join();
    CAPTURE(width);
    REQUIRE(found == alone);
  }
}

TEST_CASE("resize does not change an image of one colour or of the same size") {
  Pixels image(33, 47, 3);
  std::fill_n(image.data(), image.size(), std::uint8_t{255});
  for (const auto interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const bool antialias : {true, false}) {
      for (const auto& [h, w] : {std::pair(10, 11), {33, 47}, {100, 5}}) {
        const auto found = resized(image, fit_geometry(33, 47, h, w, config::Fit::kStretch, 1),
                                   interpolation, antialias);
        CHECK(std::all_of(found.begin(), found.end(), [](std::uint8_t v) { return v == 255; }));
      }
    }
  }
  const Pixels same = make_pillow_image(20, 20, 3);
  const auto found = resized(same, fit_geometry(20, 20, 20, 20, config::Fit::kStretch, 1),
                             Interpolation::kBilinear, true);
  CHECK(std::equal(found.begin(), found.end(), same.data()));
}

TEST_CASE("fit crop is torchvision's Resize of the shorter side, then CenterCrop") {
  using config::Fit;
  // Resize(256) of 375 x 500 is 256 x 341; CenterCrop(224) starts at 16, round(58.5) = 58.
  Geometry g = fit_geometry(375, 500, 224, 224, Fit::kCrop, 0.875);
  CHECK(g.vertical.size == 256);
  CHECK(g.horizontal.size == 341);
  CHECK(g.vertical.skip == 16);
  CHECK(g.horizontal.skip == 58);
  CHECK(g.horizontal.output == 224);
  g = fit_geometry(500, 375, 224, 224, Fit::kCrop, 1);
  CHECK(g.horizontal.size == 224);
  CHECK(g.vertical.size == 298);
  CHECK(g.vertical.skip == 37);
  // A crop is the part of the whole resized image.
  const Pixels image = make_pillow_image(40, 60, 3);
  g = fit_geometry(40, 60, 16, 16, Fit::kCrop, 1);
  Geometry whole = g;
  whole.vertical.skip = whole.horizontal.skip = 0;
  whole.vertical.output = whole.vertical.size;
  whole.horizontal.output = whole.horizontal.size;
  const auto part = resized(image, g, Interpolation::kBilinear, true);
  const auto all = resized(image, whole, Interpolation::kBilinear, true);
  for (int y = 0; y < 16; ++y) {
    const auto from =
        all.begin() + ((y + g.vertical.skip) * g.horizontal.size + g.horizontal.skip) * 3;
    CHECK(std::equal(from, from + 48, part.begin() + y * 48));
  }
}

TEST_CASE("decode_reduction: the decoded image is at least as large as the target") {
  const auto reduction = [](int h, int w, int size) {
    return decode_reduction(fit_geometry(h, w, size, size, config::Fit::kStretch, 1));
  };
  CHECK(reduction(447, 1000, 224) == 1);
  CHECK(reduction(448, 448, 224) == 2);
  CHECK(reduction(1800, 1200, 224) == 4);
  CHECK(reduction(1800, 1792, 224) == 8);
  CHECK(reduction(100, 100, 224) == 1);
}

TEST_CASE("reduced: a part of an axis stands for exactly that part of the decoded pixels") {
  const auto part = [](int first, int input, bool is_mirrored) {
    const Geometry full{{first, input, 6, 0, 6}, {first, input, 6, 0, 6}};
    const Geometry geometry = reduced(full, 8, {145, is_mirrored}, {145, is_mirrored});
    CHECK(geometry.vertical == geometry.horizontal);
    return geometry.vertical;
  };
  // 145 pixels are 19 decoded ones, of which one stands for a single pixel.
  CHECK(part(0, 145, false) == ResizeAxis{0, 19, 6, 0, 6, 0, 0.875});
  CHECK(part(0, 145, true) == ResizeAxis{0, 19, 6, 0, 6, 0.875, 0});
  CHECK(part(10, 50, false) == ResizeAxis{1, 7, 6, 0, 6, 0.25, 0.5});
  CHECK(part(10, 50, true) == ResizeAxis{2, 7, 6, 0, 6, 0.125, 0.625});
  CHECK(part(16, 64, false) == ResizeAxis{2, 8, 6, 0, 6});
}

TEST_CASE("weights cache holds no more than its bytes and the same weights for many wide axes") {
  constexpr std::size_t kMaxBytes = 1 << 20;
  WeightsCache cache(kMaxBytes);
  const auto build_key = [](int input) {
    return WeightsKey{{0, input, 32, 0, 32}, Interpolation::kBilinear, true, kRgbTaps, 3};
  };
  for (int input = 100; input < 60'000; input += 500) {
    cache.get(build_key(input));
    CHECK(cache.bytes() <= kMaxBytes);
    WeightsCache other(kMaxBytes);
    CHECK(cache.get(build_key(100)).values == other.get(build_key(100)).values);
  }
  // An entry that is larger than all of the cache stays until the next one comes.
  const ResizeWeights& large = cache.get(build_key(1'000'000));
  CHECK(large.first.size() == 32);
  CHECK(cache.bytes() > kMaxBytes);
  cache.get(build_key(100));
  CHECK(cache.bytes() <= kMaxBytes);
}

TEST_CASE("fit_geometry: the scaled side of an image of one row stays within an int") {
  const Geometry geometry = fit_geometry(1, 1'000'000, 4096, 4096, config::Fit::kCrop, 1);
  CHECK(geometry.horizontal.size == INT_MAX);
  CHECK(geometry.horizontal.output == 4096);
  CHECK(geometry.vertical.size == 4096);
}

}  // namespace trainer::data
