// A contact sheet of training images.
#include <stb/stb_easy_font.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/files.h"
#include "data/check.h"
#include "data/data.h"
#include "data/mix.h"

namespace trainer::data {
namespace {

constexpr int kGap = 4, kTextHeight = 12;

struct Sheet {
  int width, height;
  std::vector<std::uint8_t> rgb;

  void set(int x, int y, const std::uint8_t* colour, int channels) {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    std::uint8_t* to = rgb.data() + (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                                     static_cast<std::size_t>(x)) *
                                        3;
    for (int c = 0; c < 3; ++c) to[c] = colour[channels == 3 ? c : 0];
  }
};

// stb_easy_font gives quads of 4 vertices of (x, y, z, colour), axis-aligned.
void draw_text(Sheet& sheet, int x, int y, int most, std::string text) {
  std::vector<char> quads(static_cast<std::size_t>(text.size() * 300 + 300));
  while (!text.empty() && stb_easy_font_width(text.data()) > most) text.pop_back();
  const int count =
      stb_easy_font_print(0, 0, text.data(), nullptr, quads.data(), static_cast<int>(quads.size()));
  const std::uint8_t black[3] = {0, 0, 0};
  for (int i = 0; i < count; ++i) {
    float low[2], high[2];
    std::memcpy(low, quads.data() + i * 64, sizeof low);
    std::memcpy(high, quads.data() + i * 64 + 32, sizeof high);
    for (int dy = static_cast<int>(low[1]); dy < static_cast<int>(high[1]); ++dy) {
      for (int dx = static_cast<int>(low[0]); dx < static_cast<int>(high[0]); ++dx) {
        sheet.set(x + dx, y + dy, black, 3);
      }
    }
  }
}

// "cat", or of a mixed sample "cat 70% dog 30%", the larger share first.
std::string label_text(const std::vector<float>& shares, const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  if (shares[order[0]] == 1) return classes[order[0]];
  std::string text;
  for (const std::size_t c : order) {
    if (shares[c] == 0) continue;
    text += concat(text.empty() ? "" : " ", classes[c], ' ', std::lround(100 * shares[c]), '%');
  }
  return text;
}

}  // namespace

namespace {

// The order in which training reads the samples.
Sampler training_order(const Dataset& set, const config::Data& config, std::uint64_t seed) {
  if (config.sampling == config::Sampling::kUniform) return {set.size(), seed, config.shuffle};
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < set.size(); ++i) labels.push_back(set.label_of(i));
  return {labels, seed};
}

}  // namespace

void write_sheet(const config::Data& config, std::uint64_t seed, std::int64_t samples,
                 const std::string& path) {
  Datasets data = open_datasets(config, seed, "train");
  if (data.image_type != DType::kUInt8 || !data.label_is_index) {
    throw ConfigError(config.loc, "data: a sheet needs images of bytes and labels of one class");
  }
  data.train = mix_samples(std::move(data.train), config.train.augment, data.num_classes, seed);
  const Dataset& set = *data.train;
  const Shape shape = set.spec().image_shape;
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const int channels = static_cast<int>(shape[2]);
  const int count = static_cast<int>(std::min(samples, set.size()));
  const int columns = static_cast<int>(std::ceil(std::sqrt(count)));
  const int rows = (count + columns - 1) / columns;
  const int cell_width = width + kGap, cell_height = height + kTextHeight + kGap;
  Sheet sheet{columns * cell_width + kGap, rows * cell_height + kGap, {}};
  sheet.rgb.assign(
      static_cast<std::size_t>(sheet.width) * static_cast<std::size_t>(sheet.height) * 3, 255);
  const Sampler order = training_order(set, config, seed);
  std::vector<std::uint8_t> image(static_cast<std::size_t>(shape.elements()));
  std::vector<float> label(static_cast<std::size_t>(data.num_classes));
  for (int i = 0; i < count; ++i) {
    set.get(order.index(0, i / config.repeats), i % config.repeats, image.data(), label.data());
    const int left = kGap + i % columns * cell_width, top = kGap + i / columns * cell_height;
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        sheet.set(left + x, top + y, image.data() + (y * width + x) * channels, channels);
      }
    }
    draw_text(sheet, left, top + height + 2, width, label_text(label, data.classes));
  }
  Bytes png;
  const auto append = [](void* context, void* bytes, int size) {
    const auto* from = static_cast<const std::uint8_t*>(bytes);
    static_cast<Bytes*>(context)->insert(static_cast<Bytes*>(context)->end(), from, from + size);
  };
  stbi_write_png_to_func(append, &png, sheet.width, sheet.height, 3, sheet.rgb.data(),
                         sheet.width * 3);
  write_file_atomic(path, png);
}

}  // namespace trainer::data
