#include "commands/export/onnx_metadata.h"

#include <nlohmann/json.hpp>

#include "base/formats/json.h"
#include "base/text.h"
#include "inference/decisions/stored_decisions.h"
#include "inference/decisions/thresholds.h"

namespace trainer::commands {
namespace {

using OnnxJson = nlohmann::ordered_json;
using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;

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

void add_operating_point(const inference::OpenedModel& opened, double temperature,
                         OnnxMetadata& metadata) {
  const auto point = inference::find_operating_point(opened, false);
  if (!point) return;
  // predict uses the threshold of two classes alone.
  if (!point->costs && opened.classes.size() != 2) return;
  OnnxJson json{{"criterion", point->criterion}};
  if (point->costs) {
    json["costs"] = OnnxJson::array();
    const std::size_t classes = point->costs->classes;
    for (std::size_t row = 0; row < classes; ++row) {
      const double* const first = point->costs->costs.data() + row * classes;
      json["costs"].push_back(std::vector<double>(first, first + classes));
    }
  } else {
    json["positive_class"] = opened.classes.at(static_cast<std::size_t>(point->positive_class));
    json["log_odds"] = point->log_odds / temperature;
  }
  metadata.emplace_back("operating_point", to_json_line(json));
}

}  // namespace

OnnxMetadata make_onnx_metadata(const inference::OpenedModel& opened, double temperature) {
  const config::Normalize normalize = config::find_normalize(opened.config.data);
  OnnxMetadata metadata{
      {"classes", to_json_line(opened.classes)},
      {"preprocessing",
       concat("input: ", describe_reading(opened.config.data),
              "; inside the model: ", normalize.reverse_channels ? "channels reversed, then " : "",
              "(x * ", normalize.scale, " - ", list_numbers(normalize.mean, 0), ") / ",
              list_numbers(normalize.std, 1))},
      {"run", concat(opened.config.name, ", step ", opened.step)}};
  if (opened.is_multi_label()) {
    metadata.emplace_back("output", "a logit for each of the classes, which are labels");
    inference::add_thresholds(opened, metadata);
  }
  add_operating_point(opened, temperature, metadata);
  return metadata;
}

}  // namespace trainer::commands
