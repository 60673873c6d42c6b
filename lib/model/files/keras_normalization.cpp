#include "model/files/keras_normalization.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

namespace trainer::model {
namespace {

using checkpoint::Tensor;

constexpr const char* kLayer = "normalization";
// The factor of Keras's Rescaling layer, in float32 as in data.preprocess.
constexpr double kRescaling = static_cast<double>(1.0f / 255.0f);

struct Normalization {
  Tensor mean, variance;  // for pixels from 0 to 1
};
Normalization make_normalization(const graph::Preprocess& preprocess) {
  const auto channels = std::ssize(preprocess.mean);
  const double scale = static_cast<double>(preprocess.scale) / kRescaling;
  Normalization normalization{{"mean", {channels}, {}}, {"variance", {channels}, {}}};
  for (const float value : preprocess.mean) {
    normalization.mean.values.push_back(static_cast<float>(static_cast<double>(value) / scale));
  }
  for (const float value : preprocess.std) {
    const double deviation = static_cast<double>(value) / scale;
    normalization.variance.values.push_back(static_cast<float>(deviation * deviation));
  }
  return normalization;
}

bool is_near(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr float kTolerance = 1e-4f;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float left, float right) {
    return std::abs(left - right) <= kTolerance * std::max(std::abs(left), std::abs(right));
  });
}

// Returns whether a tensor belongs to a Normalization layer: "normalization/mean", or
// "normalization_1/0" in files of Keras 3.
bool is_normalization_weight(std::string_view name) {
  if (!name.starts_with(kLayer)) return false;
  name.remove_prefix(std::string_view(kLayer).size());
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view number = name.substr(0, slash), weight = name.substr(slash + 1);
  const bool is_layer =
      number.empty() || (number.size() > 1 && number[0] == '_' &&
                         number.find_first_not_of("0123456789", 1) == std::string_view::npos);
  const bool is_weight = weight == "mean" || weight == "variance" || weight == "count" ||
                         weight == "0" || weight == "1" || weight == "2";
  return is_layer && is_weight;
}

}  // namespace

const graph::Preprocess& find_preprocess(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes) {
    if (const auto* preprocess = std::get_if<graph::Preprocess>(&node.op)) return *preprocess;
  }
  throw std::logic_error("the model has no preprocess op");
}

std::vector<checkpoint::KerasLayer> keras_preprocessing(const graph::Graph& graph) {
  const auto [mean, variance] = make_normalization(find_preprocess(graph));
  const Tensor count{"count", {}, {0}};
  return {{"rescaling", "Rescaling", {}},
          {kLayer, "Normalization", {{"mean", mean}, {"variance", variance}, {"count", count}}}};
}

void remove_normalization(std::vector<Tensor>& file, const graph::Graph& graph) {
  const Normalization normalization = make_normalization(find_preprocess(graph));
  std::vector<float> deviation;
  for (const float value : normalization.variance.values) deviation.push_back(std::sqrt(value));
  const auto is_normalization = [](const Tensor& tensor) {
    return is_normalization_weight(tensor.name);
  };
  const bool is_same = std::ranges::all_of(file, [&](const Tensor& tensor) {
    if (!is_normalization(tensor)) return true;
    if (tensor.name.ends_with("/mean") || tensor.name.ends_with("/0")) {
      return is_near(tensor.values, normalization.mean.values);
    }
    if (tensor.name.ends_with("/variance") || tensor.name.ends_with("/1")) {
      return is_near(tensor.values, normalization.variance.values) ||
             is_near(tensor.values, deviation);
    }
    return true;
  });
  if (is_same) std::erase_if(file, is_normalization);
}

}  // namespace trainer::model
