// Each change draws the same count of numbers for any values, so that a change of the range of one
// entry does not change the draws of the others.
#include "data/images/augment/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/images/augment/policies.h"
#include "data/images/augment/reflected.h"
#include "data/images/augment/timm_rand_augment.h"

namespace trainer::data {
namespace {

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

float around_one(float factor, Random& random) {
  return random.uniform(std::max(0.0f, 1 - factor), 1 + factor);
}

void apply(const config::RandomFlipHorizontal& op, Random& random, Pixels& image) {
  if (random.uniform() >= static_cast<float>(op.probability)) return;
  const int channels = image.channels();
  for (int y = 0; y < image.height(); ++y) {
    std::uint8_t* left = image.row(y);
    std::uint8_t* right = left + image.row_bytes() - channels;
    for (; left < right; left += channels, right -= channels) {
      std::swap_ranges(left, left + channels, right);
    }
  }
}

void apply(const config::RandomFlipVertical& op, Random& random, Pixels& image) {
  if (random.uniform() >= static_cast<float>(op.probability)) return;
  for (int top = 0, bottom = image.height() - 1; top < bottom; ++top, --bottom) {
    std::swap_ranges(image.row(top), image.row(top) + image.row_bytes(), image.row(bottom));
  }
}

// These entries are applied elsewhere: they need more than one image of the final size.
void apply(const config::RandomResizedCrop&, Random&, Pixels&) {}
void apply(const config::MixUp&, Random&, Pixels&) {}
void apply(const config::CutMix&, Random&, Pixels&) {}

void apply(const config::RandomRotation& op, Random& random, Pixels& image) {
  const auto degrees = static_cast<float>(op.degrees);
  const float angle = random.uniform(-degrees, degrees) * std::numbers::pi_v<float> / 180;
  const float s = std::sin(angle), c = std::cos(angle);
  transform_reflected({c, -s, s, c, 0, 0}, image);
}

void apply(const config::RandomShift& op, Random& random, Pixels& image) {
  const float ty = static_cast<float>(op.height) * static_cast<float>(image.height());
  const float tx = static_cast<float>(op.width) * static_cast<float>(image.width());
  const float y = random.uniform(-ty, ty), x = random.uniform(-tx, tx);
  transform_reflected({1, 0, 0, 1, x, y}, image);
}

void apply(const config::RandomZoom& op, Random& random, Pixels& image) {
  const float inverse = 1 / around_one(static_cast<float>(op.factor), random);
  transform_reflected({inverse, 0, 0, inverse, 0, 0}, image);
}

void apply(const config::Brightness& op, Random& random, Pixels& image) {
  const float factor = around_one(static_cast<float>(op.factor), random);
  std::for_each_n(image.data(), image.size(), [=](std::uint8_t& value) {
    value = to_byte(factor * static_cast<float>(value));
  });
}

int grey(const std::uint8_t* pixel, int channels) {
  return channels == 3 ? luma(pixel[0], pixel[1], pixel[2]) : pixel[0];
}

void apply(const config::Contrast& op, Random& random, Pixels& image) {
  const float factor = around_one(static_cast<float>(op.factor), random);
  const int channels = image.channels();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < image.size(); i += static_cast<std::size_t>(channels)) {
    sum += grey(image.data() + i, channels);
  }
  const auto pixels = static_cast<double>(image.height()) * image.width();
  const float mean = (1 - factor) * static_cast<float>(static_cast<double>(sum) / pixels);
  std::for_each_n(image.data(), image.size(), [=](std::uint8_t& value) {
    value = to_byte(factor * static_cast<float>(value) + mean);
  });
}

void apply(const config::Saturation& op, Random& random, Pixels& image) {
  const float factor = around_one(static_cast<float>(op.factor), random);
  if (image.channels() != 3) return;
  std::uint8_t* end = image.data() + image.size();
  for (std::uint8_t* pixel = image.data(); pixel < end; pixel += 3) {
    const float pale = (1 - factor) * static_cast<float>(grey(pixel, 3));
    for (int c = 0; c < 3; ++c) pixel[c] = to_byte(factor * static_cast<float>(pixel[c]) + pale);
  }
}

constexpr std::size_t kBlock = 64;  // pixels whose loops the compiler vectorises

// The channels of a block of RGB pixels.
using Planes = std::array<std::array<float, kBlock>, 3>;

float find_floor(float value) {
  const auto cut = static_cast<float>(static_cast<int>(value));
  return cut > value ? cut - 1 : cut;
}

// Turns the hue of each pixel and keeps saturation and value.
void turn_hue(float turn, Planes& planes) {
  auto& [red, green, blue] = planes;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float r = red[i], g = green[i], b = blue[i];
    const float low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float high = r > g ? (r > b ? r : b) : (g > b ? g : b);
    const float range = high - low;
    const float difference = high == r ? g - b : high == g ? b - r : r - g;
    const float sector = high == r ? 0.0f : high == g ? 2.0f : 4.0f;
    float hue = sector + difference / (range > 0 ? range : 1) + 6 * turn;  // in sixths of a circle
    hue -= 6 * find_floor(hue / 6);
    // Each channel is a trapezoid over the circle: red about 0, green about 2, blue about 4.
    for (std::size_t c = 0; c < 3; ++c) {
      float distance = std::abs(hue - 2 * static_cast<float>(c));
      distance = distance < 6 - distance ? distance : 6 - distance;
      const float part = 2 - distance;
      planes[c][i] = low + range * (part < 0 ? 0 : part > 1 ? 1 : part);
    }
  }
}

void apply(const config::Hue& op, Random& random, Pixels& image) {
  const auto max_turn = static_cast<float>(op.factor);
  const float turn = random.uniform(-max_turn, max_turn);
  if (image.channels() != 3) return;
  Planes planes{};
  for (std::size_t first = 0; first < image.size(); first += 3 * kBlock) {
    std::uint8_t* pixels = image.data() + first;
    const std::size_t count = std::min(kBlock, (image.size() - first) / 3);
    for (std::size_t i = 0; i < 3 * count; ++i) planes[i % 3][i / 3] = pixels[i];
    turn_hue(turn, planes);
    for (std::size_t i = 0; i < 3 * count; ++i) pixels[i] = to_byte(planes[i % 3][i / 3]);
  }
}

float log_uniform(const std::vector<double>& range, Random& random) {
  return std::exp(random.uniform(static_cast<float>(std::log(range[0])),
                                 static_cast<float>(std::log(range[1]))));
}

float uniform_in(const std::vector<double>& range, Random& random) {
  return random.uniform(static_cast<float>(range[0]), static_cast<float>(range[1]));
}

void apply(const config::RandomCrop& op, Random& random, Pixels& image) {
  const auto places = static_cast<std::uint64_t>(2 * op.padding + 1);
  const int top = static_cast<int>(random.below(places));
  const int left = static_cast<int>(random.below(places));
  crop_padded(static_cast<int>(op.padding), top, left, static_cast<std::uint8_t>(op.fill), image);
}

void apply(const config::RandomGrayscale& op, Random& random, Pixels& image) {
  if (random.uniform() < static_cast<float>(op.probability)) remove_colour(image);
}

void apply(const config::GaussianBlur& op, Random& random, Pixels& image) {
  const float sigma = uniform_in(op.sigma, random);
  gaussian_blur(static_cast<int>(op.kernel_size), static_cast<double>(sigma), image);
}

void apply(const config::RandAugment& op, Random& random, Pixels& image) {
  apply_policy(op, random, image);
}
void apply(const config::TrivialAugment& op, Random& random, Pixels& image) {
  apply_policy(op, random, image);
}
void apply(const config::AutoAugment& op, Random& random, Pixels& image) {
  apply_policy(op, random, image);
}
void apply(const config::TimmRandAugment& op, const Denormalizer& denormalizer, Random& random,
           Pixels& image) {
  apply_policy(op, denormalizer, random, image);
}

constexpr int kAttempts = 10;

struct Rectangle {
  int top, left, height, width;
};

// Returns the color of an erased rectangle; in the mode kPixel, pixels replace it.
std::array<std::uint8_t, config::kMaxBands> draw_color(const config::RandomErasing& op,
                                                       const Denormalizer& denormalizer,
                                                       Random& noise, int channels) {
  using Mode = config::RandomErasing::Mode;
  std::array<std::uint8_t, config::kMaxBands> color{};
  for (int c = 0; c < channels; ++c) {
    color[c] = op.mode == Mode::kValue
                   ? static_cast<std::uint8_t>(op.value)
                   : denormalizer.find_pixel(c, op.mode == Mode::kRand ? noise.normal() : 0);
  }
  return color;
}

void erase(const config::RandomErasing& op, const Denormalizer& denormalizer, Random& noise,
           const Rectangle& part, Pixels& image) {
  const int channels = image.channels();
  const auto color = draw_color(op, denormalizer, noise, channels);
  for (int y = part.top; y < part.top + part.height; ++y) {
    std::uint8_t* pixel = image.row(y) + part.left * channels;
    for (int x = 0; x < part.width; ++x, pixel += channels) {
      for (int c = 0; c < channels; ++c) {
        pixel[c] = op.mode == config::RandomErasing::Mode::kPixel
                       ? denormalizer.find_pixel(c, noise.normal())
                       : color[c];
      }
    }
  }
}

// The numbers of the erased pixels are a stream of their own, as their count varies.
Random draw_noise(const config::RandomErasing& op, Random& random) {
  using Mode = config::RandomErasing::Mode;
  const bool has_noise = op.mode == Mode::kRand || op.mode == Mode::kPixel;
  return {has_noise ? random.next_u64() : 0, Stream::kErase};
}

void apply(const config::RandomErasing& op, const Denormalizer& denormalizer, Random& random,
           Pixels& image) {
  const bool is_erased = random.uniform() < static_cast<float>(op.probability);
  Random noise = draw_noise(op, random);
  const auto area = static_cast<float>(image.height()) * static_cast<float>(image.width());
  bool done = !is_erased;
  for (int i = 0; i < kAttempts; ++i) {
    const float part = area * uniform_in(op.scale, random), ratio = log_uniform(op.ratio, random);
    const int h = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const int w = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    const float at_y = random.uniform(), at_x = random.uniform();
    if (done || h < 1 || w < 1 || h >= image.height() || w >= image.width()) continue;
    done = true;
    const int top = static_cast<int>(at_y * static_cast<float>(image.height() - h + 1));
    const int left = static_cast<int>(at_x * static_cast<float>(image.width() - w + 1));
    erase(op, denormalizer, noise, {top, left, h, w}, image);
  }
}

Geometry cut(int top, int left, int height, int width, int out_height, int out_width) {
  return {{top, height, out_height, 0, out_height}, {left, width, out_width, 0, out_width}};
}

}  // namespace

void augment(const Augmentations& list, const Denormalizer& denormalizer, Random& random,
             Pixels& image) {
  const auto apply_to_image = [&](const auto& op) {
    if constexpr (requires { apply(op, denormalizer, random, image); }) {
      apply(op, denormalizer, random, image);
    } else {
      apply(op, random, image);
    }
  };
  for (const config::Augmentation& entry : list) std::visit(apply_to_image, entry.kind);
}

std::optional<Geometry> random_crop_geometry(const Augmentations& list, Random& random, int height,
                                             int width, int out_height, int out_width) {
  if (list.empty()) return {};
  const auto* crop = std::get_if<config::RandomResizedCrop>(&list.front().kind);
  if (crop == nullptr) return {};
  const float area = static_cast<float>(height) * static_cast<float>(width);
  std::optional<Geometry> found;
  for (int i = 0; i < kAttempts; ++i) {
    const float part = area * uniform_in(crop->scale, random);
    const float ratio = log_uniform(crop->ratio, random);
    const int w = static_cast<int>(std::lround(std::sqrt(part * ratio)));
    const int h = static_cast<int>(std::lround(std::sqrt(part / ratio)));
    const float at_y = random.uniform(), at_x = random.uniform();
    if (found || w < 1 || h < 1 || w > width || h > height) continue;
    const int top = static_cast<int>(at_y * static_cast<float>(height - h + 1));
    const int left = static_cast<int>(at_x * static_cast<float>(width - w + 1));
    found = cut(top, left, h, w, out_height, out_width);
  }
  if (found) return found;
  // Otherwise the largest central part whose ratio is allowed.
  const double ratio = static_cast<double>(width) / height;
  int h = height, w = width;
  if (ratio < crop->ratio[0]) h = static_cast<int>(std::lround(width / crop->ratio[0]));
  if (ratio > crop->ratio[1]) w = static_cast<int>(std::lround(height * crop->ratio[1]));
  h = std::clamp(h, 1, height);
  w = std::clamp(w, 1, width);
  return cut((height - h) / 2, (width - w) / 2, h, w, out_height, out_width);
}

}  // namespace trainer::data
