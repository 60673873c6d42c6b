#include "commands/plan/decode_rate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/numbers/seconds.h"
#include "train/open.h"

namespace trainer::commands {

DecodeRate measure_decoding(const data::Dataset& dataset, double seconds) {
  std::vector<std::byte> image(dataset.spec().image_bytes()), label(dataset.spec().label_bytes());
  const auto start = std::chrono::steady_clock::now();
  // Folders sort images by class, and often by size within a class.
  constexpr std::int64_t kImages = 256;
  const std::int64_t stride = std::max<std::int64_t>(1, dataset.size() / kImages);
  DecodeRate rate;
  while (rate.images == 0 || seconds_since(start) < seconds) {
    dataset.get(rate.images * stride % dataset.size(), 0, image.data(), label.data());
    ++rate.images;
  }
  rate.images_per_second = static_cast<double>(rate.images) / seconds_since(start);
  return rate;
}

std::optional<DecodeRate> measure_decoding(const config::Config& config) {
  if (config.data.cache != config::ImageCache::kNone) return std::nullopt;
  try {
    const data::Datasets data = train::open_training_data(config, Split::kTrain);
    if (data.train->spec().in_memory || data.train->size() == 0) return std::nullopt;
    return measure_decoding(*data.train, 0.5);
  } catch (const DataError& error) {
    DecodeRate none;
    none.failure = error.what();
    return none;
  }
}

std::int64_t count_cores(const DecodeRate& rate, double images_per_second) {
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(images_per_second / rate.images_per_second)));
}

}  // namespace trainer::commands
