#include "data/images/augment/denormalizer.h"

#include <doctest/doctest.h>

#include <cmath>

namespace trainer::data {
namespace {

Denormalizer make_denormalizer(config::PreprocessPreset preset) {
  config::Data data;
  data.preprocess = preset;
  return Denormalizer(config::find_normalize(data));
}

}  // namespace

TEST_CASE("Denormalizer: 0 becomes the mean of the data, whose channels caffe lists in reverse") {
  using Preset = config::PreprocessPreset;
  struct Row {
    Preset preset;
    int red, green, blue;
  };
  for (const Row& row : {Row{Preset::kTorch, 124, 116, 104}, Row{Preset::kCaffe, 124, 117, 104},
                         Row{Preset::kTf, 128, 128, 128}, Row{Preset::kScale, 0, 0, 0}}) {
    CAPTURE(static_cast<int>(row.preset));
    const Denormalizer denormalizer = make_denormalizer(row.preset);
    CHECK(denormalizer.find_pixel(0, 0) == row.red);
    CHECK(denormalizer.find_pixel(1, 0) == row.green);
    CHECK(denormalizer.find_pixel(2, 0) == row.blue);
  }
}

TEST_CASE("Denormalizer returns the pixel that normalization makes closest to any value") {
  const Denormalizer denormalizer = make_denormalizer(config::PreprocessPreset::kTorch);
  const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
  for (int c = 0; c < 3; ++c) {
    const double low = -mean[c] / std[c], high = (1 - mean[c]) / std[c];
    for (double value = low; value <= high; value += 0.0137) {
      const double pixel = denormalizer.find_pixel(c, static_cast<float>(value));
      const double normalized = (pixel / 255 - mean[c]) / std[c];
      CHECK(std::abs(normalized - value) <= 0.5 / 255 / std[c] + 1e-5);
    }
    CHECK(denormalizer.find_pixel(c, static_cast<float>(low - 1)) == 0);
    CHECK(denormalizer.find_pixel(c, static_cast<float>(high + 1)) == 255);
  }
}

TEST_CASE("Denormalizer accepts numbers for all channels, and a scale of 0") {
  const Denormalizer shared(config::Normalize{1 / 255.0, {0.1307}, {0.3081}, false});
  for (const int channel : {0, 1, 12}) CHECK(shared.find_pixel(channel, 1) == 112);  // 111.9
  CHECK(Denormalizer(config::Normalize{0, {0.5}, {0.5}, false}).find_pixel(0, 1) == 0);
}

}  // namespace trainer::data
