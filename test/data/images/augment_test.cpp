#include "data/images/augment/augment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace trainer::data {
namespace {

Pixels gradient(int height, int width, int channels) {
  Pixels image(height, width, channels);
  for (std::size_t i = 0; i < image.size(); ++i) {
    image.data()[i] = static_cast<std::uint8_t>(i * 37 % 251);
  }
  return image;
}

template <class Op>
std::vector<std::uint8_t> changed(Op op, std::uint64_t epoch, int channels = 3, int size = 16) {
  Pixels image = gradient(size, size, channels);
  Random random(3, Stream::kAugment, epoch, 5);
  augment({{op, {}}}, Denormalizer({}), random, image);
  return {image.data(), image.data() + image.size()};
}

std::vector<std::uint8_t> original(int channels = 3, int size = 16) {
  const Pixels image = gradient(size, size, channels);
  return {image.data(), image.data() + image.size()};
}

}  // namespace

TEST_CASE(
    "random_flip_horizontal and random_flip_vertical mirror pixels with the given probability") {
  int flipped = 0;
  for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
    flipped += changed(config::RandomFlipHorizontal{}, epoch) != original() ? 1 : 0;
  }
  CHECK(flipped > 160);
  CHECK(flipped < 240);
  const auto across = changed(config::RandomFlipHorizontal{1}, 0);
  const auto down = changed(config::RandomFlipVertical{1}, 0);
  const auto from = original();
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 16; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        CHECK(across[(y * 16 + x) * 3 + c] == from[(y * 16 + 15 - x) * 3 + c]);
        CHECK(down[(y * 16 + x) * 3 + c] == from[((15 - y) * 16 + x) * 3 + c]);
      }
    }
  }
}

TEST_CASE("augmentations: strength 0 changes nothing") {
  CHECK(changed(config::RandomFlipHorizontal{0}, 1) == original());
  CHECK(changed(config::RandomRotation{0}, 1) == original());
  CHECK(changed(config::RandomShift{0, 0}, 1) == original());
  CHECK(changed(config::RandomZoom{0}, 1) == original());
  CHECK(changed(config::Brightness{0}, 1) == original());
  CHECK(changed(config::Contrast{0}, 1) == original());
  CHECK(changed(config::Saturation{0}, 1) == original());
  CHECK(changed(config::Hue{0}, 1) == original());
  CHECK(changed(config::RandomErasing{0}, 1) == original());
}

TEST_CASE("augmentations: another epoch gives another image in grey and colour") {
  for (const int channels : {1, 3}) {
    const auto differs = [&](auto op) {
      return changed(op, 1, channels) != changed(op, 2, channels);
    };
    CHECK(differs(config::RandomRotation{30}));
    CHECK(differs(config::RandomShift{}));
    CHECK(differs(config::RandomZoom{}));
    CHECK(differs(config::Brightness{}));
    CHECK(differs(config::Contrast{}));
    CHECK(differs(config::Saturation{}) == (channels == 3));
    CHECK(differs(config::Hue{}) == (channels == 3));
    CHECK(differs(config::RandomErasing{1}));
    CHECK(differs(config::RandomCrop{}));
    CHECK(differs(config::GaussianBlur{}));
    const bool same = changed(config::RandomGrayscale{1}, 1, channels) == original(channels);
    CHECK(same == (channels == 1));
  }
}

TEST_CASE("augmentation policies return random images, and all operations occur") {
  const auto versions = [](auto op) {
    std::set<std::string> seen;
    for (std::uint64_t epoch = 0; epoch < 400; ++epoch) {
      const auto pixels = changed(op, epoch);
      seen.emplace(pixels.begin(), pixels.end());
    }
    return seen.size();
  };
  // 14 operations of one strength, of which 9 have a sign.
  const std::size_t one = versions(config::RandAugment{1, 9, 31});
  CHECK(one >= 18);
  CHECK(one <= 23);
  CHECK(versions(config::RandAugment{}) > 100);
  CHECK(versions(config::TrivialAugment{}) > 150);
  CHECK(versions(config::AutoAugment{}) > 30);
  CHECK(changed(config::TrivialAugment{}, 7) == changed(config::TrivialAugment{}, 7));
}

TEST_CASE("hue and saturation: hue keeps the extreme channels, saturation keeps the grey value") {
  const auto from = original(), hue = changed(config::Hue{0.5}, 4),
             pale = changed(config::Saturation{0.5}, 4);
  for (std::size_t i = 0; i < from.size(); i += 3) {
    const auto [low, high] = std::minmax({from[i], from[i + 1], from[i + 2]});
    const auto [hue_low, hue_high] = std::minmax({hue[i], hue[i + 1], hue[i + 2]});
    CHECK(low == hue_low);
    CHECK(high == hue_high);
    const auto grey = [](const std::uint8_t* p) { return .299 * p[0] + .587 * p[1] + .114 * p[2]; };
    const auto [pale_low, pale_high] = std::minmax({pale[i], pale[i + 1], pale[i + 2]});
    if (pale_low > 0 && pale_high < 255) {
      CHECK(std::abs(grey(&from[i]) - grey(&pale[i])) < 1.5);
    }
  }
}

TEST_CASE("random_resized_crop stays within the image and has the given size and aspect ratio") {
  const Augmentations list{{config::RandomResizedCrop{}, {}}};
  double area = 0;
  for (std::uint64_t epoch = 0; epoch < 500; ++epoch) {
    Random random(1, Stream::kAugment, epoch, 0);
    const auto geometry = random_crop_geometry(list, random, 300, 400, 224, 200);
    REQUIRE(geometry.has_value());
    const ResizeAxis &v = geometry->vertical, &h = geometry->horizontal;
    CHECK(v.first >= 0);
    CHECK(h.first >= 0);
    CHECK(v.first + v.input <= 300);
    CHECK(h.first + h.input <= 400);
    CHECK(v.output == 224);
    CHECK(h.output == 200);
    const double ratio = static_cast<double>(h.input) / v.input;
    CHECK(ratio > 0.74);
    CHECK(ratio < 1.35);
    area += v.input * h.input / 120000.0 / 500;
  }
  // Uniform over [0.08, 1] but for the largest, which often do not fit.
  CHECK(area > 0.38);
  CHECK(area < 0.56);
  Random random(1, Stream::kAugment);
  // Nothing fits a line of pixels: the largest central part of an allowed ratio.
  const auto line = random_crop_geometry(list, random, 1, 1000, 8, 8);
  CHECK(line->horizontal.input == 1);
  CHECK(!random_crop_geometry({}, random, 10, 10, 8, 8));
}

TEST_CASE("data.preprocess has the presets of keras.applications' preprocess_input") {
  using config::PreprocessPreset;
  const auto value = [](PreprocessPreset preset, const double(&rgb)[3], std::size_t channel) {
    config::Data data;
    data.preprocess = preset;
    const config::Normalize n = config::find_normalize(data);
    const auto of = [&](const std::vector<double>& v, double otherwise) {
      return v.empty() ? otherwise : v.size() == 1 ? v[0] : v[channel];
    };
    return (rgb[n.reverse_channels ? 2 - channel : channel] * n.scale - of(n.mean, 0)) /
           of(n.std, 1);
  };
  const double rgb[3] = {10, 100, 200};
  CHECK(value(PreprocessPreset::kTf, rgb, 1) == doctest::Approx(100 / 127.5 - 1));
  CHECK(value(PreprocessPreset::kCaffe, rgb, 0) == doctest::Approx(200 - 103.939));
  CHECK(value(PreprocessPreset::kCaffe, rgb, 2) == doctest::Approx(10 - 123.68));
  CHECK(value(PreprocessPreset::kTorch, rgb, 0) == doctest::Approx((10 / 255.0 - 0.485) / 0.229));
  CHECK(value(PreprocessPreset::kScale, rgb, 2) == doctest::Approx(200 / 255.0));
  CHECK(value(PreprocessPreset::kNone, rgb, 2) == doctest::Approx(200));
}

}  // namespace trainer::data
