#include "commands/export/model_description.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/thresholds.h"
#include "results/write_json.h"

namespace trainer::commands {
namespace {

// Returns "0.5" or "[0.5, 0.4, 0.3]".
std::string list_numbers(const std::vector<double>& values, double otherwise) {
  if (values.empty()) return concat(otherwise);
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + concat(value);
  return values.size() == 1 ? text : "[" + text + "]";
}

std::string describe_reading(const config::Data& data) {
  if (!config::is_image_format(data.format) || data.resize.size() != 2) return "pixels as they are";
  const bool cubic = data.interpolation == config::Interpolation::kBicubic;
  std::string text = concat("images resized to ", data.resize[0], " x ", data.resize[1], ", ",
                            cubic ? "bicubic" : "bilinear", data.antialias ? ", antialias" : "");
  if (data.fit == config::Fit::kCrop) {
    text += concat(", the shorter side fitted and the middle ", data.crop_fraction, " cut out");
  }
  if (data.fit == config::Fit::kPad) text += ", with black borders that keep the aspect ratio";
  if (data.range && !data.range->is_automatic) {
    text += concat(", 16-bit values ", data.range->low, " to ", data.range->high, " taken to");
  }
  return text + ", 0 to 255";
}

results::ExportedResize describe_resize(const config::Data& data) {
  results::ExportedResize resize;
  resize.fit = data.fit;
  resize.size = data.resize;
  resize.filter = data.interpolation;
  resize.antialias = data.antialias;
  resize.scaled_decode = data.scaled_decode;
  if (data.fit == config::Fit::kCrop) {
    // The rounding of fit_geometry().
    for (std::int64_t& side : resize.size) {
      const auto before = std::nearbyint(static_cast<double>(side) / data.crop_fraction);
      side = std::max(side, static_cast<std::int64_t>(before));
    }
  }
  if (data.range && !data.range->is_automatic) resize.range = {data.range->low, data.range->high};
  return resize;
}

std::optional<results::ExportedOperatingPoint> describe_operating_point(
    const inference::OpenedModel& opened, double temperature) {
  const auto point = inference::find_operating_point(opened, false);
  // predict uses the threshold of two classes alone.
  if (!point || (!point->costs && opened.classes.size() != 2)) return std::nullopt;
  results::ExportedOperatingPoint described{point->criterion};
  if (!point->costs) {
    described.positive_class = opened.classes.at(static_cast<std::size_t>(point->positive_class));
    described.log_odds = point->log_odds / temperature;
    return described;
  }
  const auto classes = static_cast<std::ptrdiff_t>(point->costs->classes);
  const auto first = point->costs->costs.begin();
  for (std::ptrdiff_t row = 0; row < classes; ++row) {
    described.costs.emplace_back(first + row * classes, first + (row + 1) * classes);
  }
  return described;
}

std::string find_activation(LossKind loss) {
  if (loss == LossKind::kMeanSquaredError) return "none";
  return loss == LossKind::kSoftmaxCrossEntropy ? "softmax" : "sigmoid";
}

}  // namespace

results::ExportedModel describe_model(const inference::OpenedModel& opened,
                                      const model::OnnxOptions& options) {
  const config::Data& data = opened.config.data;
  const config::Normalize normalize = config::find_normalize(data);
  const Shape image = inference::sample_spec(opened).image;
  const auto channels = static_cast<std::size_t>(image[image.rank() - 1]);
  const bool gives_logits = !options.probabilities_of;
  results::ExportedModel model{
      {"images", options.input == DType::kUInt8 ? "uint8" : "float32", image.dims()},
      {},
      {normalize.reverse_channels, normalize.scale, {}, {}},
      opened.classes,
      {gives_logits ? "logits" : "probabilities", find_activation(opened.config.model.loss),
       opened.is_multi_label()},
      {},
      opened.config.name,
      opened.step};
  if (config::is_image_format(data.format) && data.resize.size() == 2) {
    model.resize = describe_resize(data);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    model.normalize.mean.push_back(normalize.find_mean(c));
    model.normalize.std.push_back(normalize.find_std(c));
  }
  if (options.temperature != 1) model.output.temperature = options.temperature;
  if (opened.is_multi_label()) {
    model.output.thresholds = inference::read_thresholds(opened, false).logits;
    for (double& threshold : model.output.thresholds) {
      if (!gives_logits) threshold = sigmoid(threshold);
    }
  }
  model.operating_point = describe_operating_point(opened, options.temperature);
  return model;
}

model::OnnxMetadata make_onnx_metadata(const inference::OpenedModel& opened,
                                       const results::ExportedModel& model) {
  const config::Normalize normalize = config::find_normalize(opened.config.data);
  model::OnnxMetadata metadata{
      {"model", to_json_line(results::to_json(model))},
      {"classes", to_json_line(opened.classes)},
      {"preprocessing",
       concat("input: ", describe_reading(opened.config.data),
              "; inside the model: ", normalize.reverse_channels ? "channels reversed, then " : "",
              "(x * ", normalize.scale, " - ", list_numbers(normalize.mean, 0), ") / ",
              list_numbers(normalize.std, 1))},
      {"run", concat(opened.config.name, ", step ", opened.step)}};
  if (model.output.several_labels) {
    metadata.emplace_back("output", concat("one of the ", model.output.name,
                                           " for each of the classes, which are labels"));
    metadata.emplace_back("thresholds", to_json_line(model.output.thresholds));
  }
  if (model.operating_point) {
    metadata.emplace_back("operating_point",
                          to_json_line(results::to_json(*model.operating_point)));
  }
  return metadata;
}

}  // namespace trainer::commands
