// The pixels that random_erasing writes in each mode, against the definitions of timm's modes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "data/images/augment/augment.h"

namespace trainer::data::erasing_test {
namespace {

using Mode = config::RandomErasing::Mode;

constexpr int kSize = 64, kErased = 61;  // a square of 90 % of the area
constexpr std::uint8_t kBefore = 7;

const double kMean[] = {0.485, 0.456, 0.406}, kStd[] = {0.229, 0.224, 0.225};

config::RandomErasing make_erasing(Mode mode) {
  config::RandomErasing erasing;
  erasing.probability = 1;
  erasing.scale = {0.9, 0.9};
  erasing.ratio = {1, 1};
  erasing.mode = mode;
  erasing.value = 200;
  return erasing;
}

Denormalizer make_denormalizer() {
  config::Data data;
  data.preprocess = config::PreprocessPreset::kTorch;
  return Denormalizer(config::find_normalize(data));
}

Pixels erase(const config::RandomErasing& erasing, std::uint64_t epoch) {
  Pixels image(kSize, kSize, 3);
  std::fill_n(image.data(), image.size(), kBefore);
  Random random(3, Stream::kAugment, epoch, 5);
  augment({{erasing, {}}}, make_denormalizer(), random, image);
  return image;
}

// Returns the erased pixels of an image, row by row, by its changed rows and columns.
std::vector<std::array<std::uint8_t, 3>> find_erased(Pixels image) {
  int top = kSize, left = kSize, bottom = -1, right = -1;
  for (int y = 0; y < kSize; ++y) {
    for (int x = 0; x < kSize; ++x) {
      const std::uint8_t* pixel = image.row(y) + 3 * x;
      if (std::all_of(pixel, pixel + 3, [](int value) { return value == kBefore; })) continue;
      top = std::min(top, y);
      left = std::min(left, x);
      bottom = std::max(bottom, y);
      right = std::max(right, x);
    }
  }
  CHECK(bottom - top + 1 == kErased);
  CHECK(right - left + 1 == kErased);
  std::vector<std::array<std::uint8_t, 3>> erased;
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const std::uint8_t* pixel = image.row(y) + 3 * x;
      erased.push_back({pixel[0], pixel[1], pixel[2]});
    }
  }
  return erased;
}

// The probability that N(0, 1) is below a pixel value's upper edge.
double find_probability_up_to(int value, std::size_t channel) {
  const double edge = ((value + 0.5) / 255 - kMean[channel]) / kStd[channel];
  return value >= 255 ? 1 : std::erfc(-edge / std::numbers::sqrt2) / 2;
}

double correlate(const std::vector<double>& a, const std::vector<double>& b) {
  const auto count = static_cast<double>(a.size());
  double mean_a = 0, mean_b = 0, product = 0, square_a = 0, square_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / count;
    mean_b += b[i] / count;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return product / std::sqrt(square_a * square_b);
}

}  // namespace

TEST_CASE("random_erasing: modes value and const fill with one colour") {
  for (const auto& [mode, colour] :
       {std::pair{Mode::kValue, std::array<std::uint8_t, 3>{200, 200, 200}},
        std::pair{Mode::kConst, std::array<std::uint8_t, 3>{124, 116, 104}}}) {
    const auto erased = find_erased(erase(make_erasing(mode), 1));
    CHECK(std::all_of(erased.begin(), erased.end(),
                      [&, expected = colour](const auto& pixel) { return pixel == expected; }));
  }
}

TEST_CASE(
    "random_erasing: mode pixel fills with independent numbers from N(0, 1) after normalization") {
  constexpr std::uint64_t kImages = 40;
  std::array<std::vector<double>, 3> values;
  std::vector<double> neighbours[2];
  std::array<std::array<std::int64_t, 256>, 3> counts{};
  for (std::uint64_t epoch = 0; epoch < kImages; ++epoch) {
    const auto erased = find_erased(erase(make_erasing(Mode::kPixel), epoch));
    for (std::size_t i = 0; i < erased.size(); ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        values[c].push_back(erased[i][c]);
        ++counts[c][erased[i][c]];
      }
      if (i == 0) continue;
      neighbours[0].push_back(erased[i - 1][0]);
      neighbours[1].push_back(erased[i][0]);
    }
  }
  const auto count = static_cast<double>(values[0].size());
  REQUIRE(count == kImages * kErased * kErased);
  for (std::size_t c = 0; c < 3; ++c) {
    CAPTURE(c);
    // Chi-squared over the 256 values, whose mean is the degrees of freedom and whose standard
    // deviation is sqrt(2 * 255) = 22.6.
    double chi_squared = 0;
    for (int value = 0; value < 256; ++value) {
      const double below = value == 0 ? 0 : find_probability_up_to(value - 1, c);
      const double expected = count * (find_probability_up_to(value, c) - below);
      const auto found = static_cast<double>(counts[c][static_cast<std::size_t>(value)]);
      chi_squared += (found - expected) * (found - expected) / expected;
    }
    CHECK(chi_squared > 255 - 4 * 22.6);
    CHECK(chi_squared < 255 + 4 * 22.6);
  }
  const double limit = 4 / std::sqrt(count);
  CHECK(std::abs(correlate(values[0], values[1])) < limit);
  CHECK(std::abs(correlate(values[1], values[2])) < limit);
  CHECK(std::abs(correlate(neighbours[0], neighbours[1])) < limit);
}

TEST_CASE("random_erasing: mode rand draws a number from N(0, 1) for each channel of the part") {
  constexpr std::uint64_t kImages = 2000;
  std::array<std::vector<double>, 3> numbers;
  for (std::uint64_t epoch = 0; epoch < kImages; ++epoch) {
    const auto erased = find_erased(erase(make_erasing(Mode::kRand), epoch));
    const auto colour = erased.front();
    REQUIRE(std::all_of(erased.begin(), erased.end(),
                        [&](const auto& pixel) { return pixel == colour; }));
    for (std::size_t c = 0; c < 3; ++c) {
      numbers[c].push_back((colour[c] / 255.0 - kMean[c]) / kStd[c]);
    }
  }
  for (std::size_t c = 0; c < 3; ++c) {
    double within_one = 0, below_zero = 0;
    for (const double number : numbers[c]) {
      within_one += std::abs(number) < 1 ? 1.0 / kImages : 0;
      below_zero += number < 0 ? 1.0 / kImages : 0;
    }
    CHECK(within_one == doctest::Approx(0.683).epsilon(0.06));  // 4 standard deviations: 0.042
    CHECK(below_zero == doctest::Approx(0.5).epsilon(0.09));
  }
  CHECK(std::abs(correlate(numbers[0], numbers[1])) < 4 / std::sqrt(kImages));
}

TEST_CASE("random_erasing: the draws of what follows depend neither on erasing nor on its size") {
  const auto find_next_draw = [](const config::RandomErasing& erasing) {
    Pixels image(kSize, kSize, 3);
    std::fill_n(image.data(), image.size(), kBefore);
    Random random(3, Stream::kAugment, 2, 5);
    augment({{erasing, {}}}, make_denormalizer(), random, image);
    return random.next_u32();
  };
  for (const Mode mode : {Mode::kValue, Mode::kConst, Mode::kRand, Mode::kPixel}) {
    CAPTURE(static_cast<int>(mode));
    config::RandomErasing erasing = make_erasing(mode);
    const std::uint32_t next = find_next_draw(erasing);
    erasing.probability = 0;
    CHECK(find_next_draw(erasing) == next);
    erasing.scale = {0.1, 0.2};
    erasing.probability = 1;
    CHECK(find_next_draw(erasing) == next);
    // Modes without noise take 41 draws, as before there were modes.
    Random random(3, Stream::kAugment, 2, 5);
    for (int i = 0; i < 41; ++i) random.next_u32();
    CHECK((random.next_u32() == next) == (mode == Mode::kValue || mode == Mode::kConst));
  }
}

}  // namespace trainer::data::erasing_test
