#include "inference/predict/heatmap.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "inference/predict/sample_pixels.h"
#include "model/build_model.h"
#include "model/features.h"

namespace trainer::inference {
namespace {

// Occlusion divides each side of an image into so many parts, or its pixels if these are fewer. The
// patch is two parts wide, and its centre visits each part.
constexpr std::int64_t kOcclusionParts = 14;

constexpr double kMapOpacity = 0.4;

std::unique_ptr<backend::Backend> open_cpu(const config::Config& config) {
  backend::DeviceOptions options;
  options.kind = DeviceKind::kCpu;
  options.cpu.threads = config.parallel.threads;
  options.cpu.lanes = 1;  // all threads work on the one image of a call
  return std::move(backend::open_backends(options).front());
}

// The share of a colour of the usual scale from blue to red, whose largest value is at `centre`.
double scale_colour(double value, double centre) {
  return std::clamp(1.5 - std::abs(4 * (value - centre)), 0.0, 1.0);
}

// Divides by the largest value, if that is positive.
void normalise(engine::PositionMap& map) {
  const float largest = *std::ranges::max_element(map.values);
  if (!(largest > 0)) {
    std::ranges::fill(map.values, 0.0f);
    return;
  }
  for (float& value : map.values) value = std::max(value / largest, 0.0f);
}

// The two parts between whose centres a pixel lies, and the share of the second.
struct Between {
  std::int64_t first = 0, second = 0;
  float share = 0;
};
Between find_parts(std::int64_t pixel, std::int64_t pixels, std::int64_t parts) {
  const double at = (static_cast<double>(pixel) + 0.5) * static_cast<double>(parts) /
                        static_cast<double>(pixels) -
                    0.5;
  const double inside = std::clamp(at, 0.0, static_cast<double>(parts - 1));
  const auto first = static_cast<std::int64_t>(inside);
  return {first, std::min(first + 1, parts - 1),
          static_cast<float>(inside - static_cast<double>(first))};
}

// The mean of each channel of an image [height, width, channels].
template <class T>
std::vector<T> mean_colour(const std::vector<std::byte>& image, std::size_t channels) {
  const std::size_t count = image.size() / sizeof(T);
  std::vector<double> sums(channels);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, image.data() + i * sizeof(T), sizeof(T));
    sums[i % channels] += static_cast<double>(value);
  }
  std::vector<T> mean;
  for (const double sum : sums) {
    const double value = sum * static_cast<double>(channels) / static_cast<double>(count);
    mean.push_back(static_cast<T>(std::is_integral_v<T> ? std::round(value) : value));
  }
  return mean;
}

// The bytes of a pixel of the mean colour.
std::vector<std::byte> mean_pixel(const std::vector<std::byte>& image,
                                  const data::DatasetSpec& spec) {
  const std::size_t channels = spec.image_shape[2];
  std::vector<std::byte> pixel(channels * size_of(spec.image_type));
  if (spec.image_type == DType::kUInt8) {
    std::memcpy(pixel.data(), mean_colour<std::uint8_t>(image, channels).data(), pixel.size());
  } else {
    std::memcpy(pixel.data(), mean_colour<float>(image, channels).data(), pixel.size());
  }
  return pixel;
}

}  // namespace

HeatmapMaker::HeatmapMaker(const OpenedModel& opened, const std::vector<PredictionInput>& inputs,
                           HeatmapMethod method, const std::string& layer)
    : loss_(opened.config.model.loss), spec_(inputs.front().dataset().spec()) {
  if (method == HeatmapMethod::kOcclusion) {
    engine_ = make_engine(opened, inputs);
    return;
  }
  const config::Config& config = opened.config;
  const graph::Graph model = model::build_model(config, sample_spec(opened, inputs));
  backend_ = open_cpu(config);
  activation_ = std::make_unique<engine::ClassActivation>(
      model, config, model::find_feature_map(model, layer), *backend_);
  activation_->load(opened.file, opened.path);
}

engine::PositionMap HeatmapMaker::compute(const std::vector<std::byte>& image, std::int64_t label) {
  engine::PositionMap map =
      activation_ ? activation_->compute(image.data(), label) : occlude(image, label);
  map = enlarge(map, spec_.image_shape[0], spec_.image_shape[1]);
  normalise(map);
  return map;
}

engine::PositionMap HeatmapMaker::occlude(const std::vector<std::byte>& image, std::int64_t label) {
  const std::int64_t height = spec_.image_shape[0], width = spec_.image_shape[1];
  engine::PositionMap map{std::min(height, kOcclusionParts), std::min(width, kOcclusionParts), {}};
  const std::vector<std::byte> pixel = mean_pixel(image, spec_);
  const std::size_t outputs = engine_->replica().outputs();
  // Image 0 of the first batch is the one without a patch.
  const std::int64_t images = map.height * map.width + 1;
  std::vector<double> probabilities;
  std::vector<std::byte> batch;
  for (std::int64_t first = 0; first < images; first += engine_->evaluation_batch()) {
    const std::int64_t count = std::min(images - first, engine_->evaluation_batch());
    batch.clear();
    for (std::int64_t i = first; i < first + count; ++i) {
      const std::size_t start = batch.size();
      batch.insert(batch.end(), image.begin(), image.end());
      if (i == 0) continue;
      const std::int64_t row = (i - 1) / map.width, column = (i - 1) % map.width;
      // The part itself and half a part on each side.
      const auto from = [](std::int64_t part, std::int64_t parts, std::int64_t pixels) {
        return std::max<std::int64_t>((2 * part - 1) * pixels / (2 * parts), 0);
      };
      const auto to = [](std::int64_t part, std::int64_t parts, std::int64_t pixels) {
        return std::min(((2 * part + 3) * pixels + 2 * parts - 1) / (2 * parts), pixels);
      };
      for (std::int64_t y = from(row, map.height, height); y < to(row, map.height, height); ++y) {
        for (std::int64_t x = from(column, map.width, width); x < to(column, map.width, width);
             ++x) {
          std::memcpy(batch.data() + start + static_cast<std::size_t>(y * width + x) * pixel.size(),
                      pixel.data(), pixel.size());
        }
      }
    }
    engine_->evaluate({count, batch.data(), false, nullptr});
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::vector<double> all =
          results::compute_probabilities(engine_->logits().subspan(i * outputs, outputs), loss_);
      probabilities.push_back(all.at(label));
    }
  }
  for (std::size_t i = 1; i < probabilities.size(); ++i) {
    map.values.push_back(static_cast<float>(std::max(probabilities[0] - probabilities[i], 0.0)));
  }
  return map;
}

HeatmapPicture HeatmapMaker::draw(const data::Dataset& dataset, std::int64_t index,
                                  std::int64_t label) {
  const std::vector<std::byte> image = read_image(dataset, index);
  return lay_over(to_pixels(image, spec_), spec_.image_shape[2], compute(image, label));
}

engine::PositionMap enlarge(const engine::PositionMap& map, std::int64_t height,
                            std::int64_t width) {
  engine::PositionMap large{height, width, {}};
  const auto value = [&](std::int64_t y, std::int64_t x) { return map.values[y * map.width + x]; };
  for (std::int64_t y = 0; y < height; ++y) {
    const Between rows = find_parts(y, height, map.height);
    for (std::int64_t x = 0; x < width; ++x) {
      const Between columns = find_parts(x, width, map.width);
      const auto in_row = [&](std::int64_t row) {
        return std::lerp(value(row, columns.first), value(row, columns.second), columns.share);
      };
      large.values.push_back(std::lerp(in_row(rows.first), in_row(rows.second), rows.share));
    }
  }
  return large;
}

HeatmapPicture lay_over(const std::vector<std::uint8_t>& pixels, std::int64_t channels,
                        const engine::PositionMap& map) {
  HeatmapPicture picture{map.height, map.width, {}};
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    const auto value = static_cast<double>(map.values[i]);
    const double colour[] = {scale_colour(value, 0.75), scale_colour(value, 0.5),
                             scale_colour(value, 0.25)};
    for (std::size_t c = 0; c < 3; ++c) {
      const std::size_t at = i * static_cast<std::size_t>(channels) + (channels == 3 ? c : 0);
      const double shown = (1 - kMapOpacity) * pixels[at] + kMapOpacity * 255 * colour[c];
      picture.pixels.push_back(static_cast<std::uint8_t>(std::lround(shown)));
    }
  }
  return picture;
}

}  // namespace trainer::inference
