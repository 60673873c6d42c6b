#include "commands/report/mistakes.h"

#include <openssl/evp.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "commands/predict/heatmap.h"
#include "commands/predict/predict.h"
#include "commands/predict/sample_pixels.h"

namespace trainer::commands {
namespace {

constexpr int kMaxSide = 256;
constexpr int kMaxPngSide = 64;  // sides up to which PNG is the smaller file
constexpr int kJpegQuality = 85;

std::string base64(const Bytes& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL adds a zero
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

// The mean of squares of pixels, so many on a side.
std::vector<std::uint8_t> shrunk(const std::vector<std::uint8_t>& pixels, int height, int width,
                                 int channels, int side) {
  std::vector<std::uint8_t> small;
  for (int y = 0; y + side <= height; y += side) {
    for (int x = 0; x + side <= width; x += side) {
      for (int c = 0; c < channels; ++c) {
        int sum = 0;
        for (int i = 0; i < side * side; ++i) {
          const int at = ((y + i / side) * width + x + i % side) * channels + c;
          sum += pixels[static_cast<std::size_t>(at)];
        }
        small.push_back(static_cast<std::uint8_t>(sum / (side * side)));
      }
    }
  }
  return small;
}

// Makes heatmaps of the last feature map or, of a model that has none, by occlusion.
HeatmapMaker make_heatmaps(const OpenedModel& trained, const std::vector<PredictionInput>& inputs,
                           std::string& method) {
  try {
    method = "Grad-CAM";
    return {trained, inputs, HeatmapMethod::kGradCam, ""};
  } catch (const ConfigError&) {
    method = "occlusion";
    return {trained, inputs, HeatmapMethod::kOcclusion, ""};
  }
}

// Keeps the mistakes whose own class got the least probability.
class Worst {
 public:
  explicit Worst(std::size_t most) : most_(most) {}

  void add(const Prediction& prediction) {
    const auto label = static_cast<std::size_t>(*prediction.label);
    const auto predicted = static_cast<std::size_t>(prediction.predicted);
    kept_.insert({prediction.probabilities[label], prediction.probabilities[predicted],
                  prediction.index, label, predicted});
    if (kept_.size() > most_) kept_.erase(std::prev(kept_.end()));
  }

  std::vector<Mistake> take(const PredictionInput& input, const std::vector<std::string>& classes,
                            HeatmapMaker& maker) const {
    const data::DatasetSpec& spec = input.dataset().spec();
    std::vector<Mistake> mistakes;
    for (const Kept& one : kept_) {
      const std::vector<std::byte> image = read_image(input.dataset(), one.index);
      const std::vector<std::uint8_t> pixels = to_pixels(image, spec);
      Picture picture = encode_picture(pixels, spec.image_shape);
      const engine::PositionMap map =
          maker.compute(image, static_cast<std::int64_t>(one.predicted));
      const HeatmapPicture heatmap = lay_over(pixels, spec.image_shape[2], map);
      const std::string sample =
          input.one_per_file ? input.name_of(one.index) : concat("number ", one.index);
      mistakes.push_back({sample, classes[one.label], classes[one.predicted], one.of_label,
                          one.of_predicted, picture.width, picture.height, std::move(picture.url),
                          encode_picture(heatmap.pixels, {heatmap.height, heatmap.width, 3}).url});
    }
    return mistakes;
  }

 private:
  struct Kept {
    double of_label, of_predicted;
    std::int64_t index;
    std::size_t label, predicted;
    bool operator<(const Kept& other) const {
      return std::tie(of_label, index) < std::tie(other.of_label, other.index);
    }
  };
  std::size_t most_;
  std::set<Kept> kept_;
};

SplitResult count_result(const engine::Confusion& confusion) {
  SplitResult result;
  result.loss = std::nan("");
  result.classes = confusion.class_counts();
  for (const engine::ClassCounts& one : result.classes) {
    result.count += one.support;
    result.correct += one.correct;
  }
  result.accuracy = static_cast<double>(result.correct) / static_cast<double>(result.count);
  result.confusions = confusion.cells();
  engine::keep_largest_confusions(result.confusions, result.confusions.size());
  return result;
}

Mistakes look(const OpenedModel& trained, const MistakeOptions& options) {
  Mistakes found;
  found.checkpoint = trained.checkpoint;
  found.step = trained.step;
  if (trained.classes.empty()) {
    found.reason = "the model has no classes";
    return found;
  }
  found.has_probabilities = trained.config.model.loss != LossKind::kMeanSquaredError;
  const auto inputs = open_prediction_inputs(trained, {}, {}, false, options.warn);
  const PredictionInput& input = inputs.front();
  found.split = input.name;
  found.samples = input.dataset().size();
  if (!input.dataset().spec().label_is_index()) {
    found.reason = trained.is_multi_label()
                       ? "images with several labels are not ranked by their mistakes"
                       : "the labels are not classes";
    return found;
  }
  const auto engine = make_engine(trained, inputs);
  Worst worst(options.most);
  engine::Confusion confusion(static_cast<std::int64_t>(trained.classes.size()));
  const auto each = [&](const Prediction& prediction) {
    ++found.looked_at;
    if (!prediction.error.empty()) return;
    confusion.add(*prediction.label, prediction.predicted);
    if (prediction.predicted == *prediction.label) return;
    ++found.wrong;
    worst.add(prediction);
  };
  const auto start = std::chrono::steady_clock::now();
  const auto enough = [&] {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return passed.count() >= options.seconds;
  };
  predict(*engine, input, {trained.config.model.loss}, each, enough);
  if (found.wrong > 0) {
    HeatmapMaker maker = make_heatmaps(trained, inputs, found.heatmap_method);
    found.worst = worst.take(input, trained.classes, maker);
  }
  if (found.looked_at == found.samples) found.result = count_result(confusion);
  return found;
}

}  // namespace

Picture encode_picture(const std::vector<std::uint8_t>& pixels, const Shape& shape) {
  const int height = static_cast<int>(shape[0]), width = static_cast<int>(shape[1]);
  const int all = static_cast<int>(shape[2]), channels = all == 3 ? 3 : 1;
  std::vector<std::uint8_t> shown(static_cast<std::size_t>(height * width * channels));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    shown[i] = channels == all ? pixels[i] : pixels[i * static_cast<std::size_t>(all)];
  }
  const int longest = std::max(height, width);
  const int side = std::min({(longest + kMaxSide - 1) / kMaxSide, height, width});
  if (side > 1) shown = shrunk(shown, height, width, channels, side);
  Picture picture{width / side, height / side, {}};
  Bytes file;
  const auto append = [](void* context, void* bytes, int size) {
    const auto* from = static_cast<const std::uint8_t*>(bytes);
    static_cast<Bytes*>(context)->insert(static_cast<Bytes*>(context)->end(), from, from + size);
  };
  const bool small = std::max(picture.width, picture.height) <= kMaxPngSide;
  if (small) {
    stbi_write_png_to_func(append, &file, picture.width, picture.height, channels, shown.data(),
                           picture.width * channels);
  } else {
    stbi_write_jpg_to_func(append, &file, picture.width, picture.height, channels, shown.data(),
                           kJpegQuality);
  }
  picture.url = concat("data:image/", small ? "png" : "jpeg", ";base64,", base64(file));
  return picture;
}

Mistakes find_mistakes(const Path& folder, const MistakeOptions& options) {
  try {
    return look(open_trained(folder.string(), options.checkpoint, options.overrides,
                             options.environment, options.warn),
                options);
  } catch (const Error& error) {
    Mistakes none;
    none.reason = error.what();
    return none;
  }
}

}  // namespace trainer::commands
