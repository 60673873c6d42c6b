#include "inference/predict/sample_pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainer::inference {

std::vector<std::byte> read_image(const data::Dataset& dataset, std::int64_t index) {
  std::vector<std::byte> image(dataset.spec().image_bytes());
  std::vector<std::byte> label(dataset.spec().label_bytes());
  dataset.get(index, image.data(), label.data());
  return image;
}

std::vector<std::uint8_t> to_pixels(const std::vector<std::byte>& image,
                                    const data::DatasetSpec& spec) {
  std::vector<std::uint8_t> pixels(spec.image_shape.elements());
  if (spec.image_type == DType::kUInt8) {
    std::memcpy(pixels.data(), image.data(), pixels.size());
    return pixels;
  }
  if (spec.image_type != DType::kFloat32) return {};
  std::vector<float> values(pixels.size());
  std::memcpy(values.data(), image.data(), image.size());
  const auto [least, most] = std::ranges::minmax_element(values);
  const float low = *least, range = *most - low;
  std::ranges::transform(values, pixels.begin(), [&](float value) {
    const float share = range > 0 ? (value - low) / range : 0;
    return static_cast<std::uint8_t>(std::isfinite(share) ? std::lround(255 * share) : 0);
  });
  return pixels;
}

}  // namespace trainer::inference
