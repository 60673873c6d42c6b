#include "model/files/position_embedding.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "config/pretrained.h"
#include "model/features.h"

namespace trainer::model {
namespace {

// The inputs of an output along one axis, and their weights.
struct Taps {
  std::vector<std::int64_t> inputs;
  std::vector<double> weights;
};

// Keys' cubic convolution kernel.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// Pillow's weights, which PyTorch takes for antialias.
Taps antialiased_taps(std::int64_t inputs, double scale, std::int64_t output) {
  constexpr double kA = -0.5;
  const double stretch = std::max(scale, 1.0), support = 2 * stretch;
  const double centre = scale * (static_cast<double>(output) + 0.5);
  const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(centre - support + 0.5), 0);
  const auto end = std::min(static_cast<std::int64_t>(centre + support + 0.5), inputs);
  Taps taps;
  double sum = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    taps.inputs.push_back(i);
    taps.weights.push_back(cubic((static_cast<double>(i) - centre + 0.5) / stretch, kA));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) weight /= sum;
  return taps;
}

// The four nearest inputs, of which those outside repeat the border.
Taps plain_taps(std::int64_t inputs, double place) {
  constexpr double kA = -0.75;
  const double first = std::floor(place);
  Taps taps;
  for (int i = -1; i <= 2; ++i) {
    const auto input = static_cast<std::int64_t>(first) + i;
    taps.inputs.push_back(std::clamp<std::int64_t>(input, 0, inputs - 1));
    taps.weights.push_back(cubic(place - first - i, kA));
  }
  return taps;
}

std::vector<Taps> make_taps(std::int64_t inputs, std::int64_t outputs, Resampling resampling) {
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  const double corners =
      outputs > 1 ? static_cast<double>(inputs - 1) / static_cast<double>(outputs - 1) : 0;
  std::vector<Taps> all;
  for (std::int64_t output = 0; output < outputs; ++output) {
    const auto at = static_cast<double>(output);
    if (resampling == Resampling::kAntialias) {
      all.push_back(antialiased_taps(inputs, scale, output));
    } else {
      all.push_back(plain_taps(inputs, resampling == Resampling::kAlignCorners
                                           ? at * corners
                                           : (at + 0.5) * scale - 0.5));
    }
  }
  return all;
}

// Resamples the middle axis of [outer, inputs, inner].
std::vector<double> resample_axis(const std::vector<double>& values, std::int64_t outer,
                                  std::int64_t inputs, std::int64_t outputs, std::int64_t inner,
                                  Resampling resampling) {
  const std::vector<Taps> all = make_taps(inputs, outputs, resampling);
  std::vector<double> result(outer * outputs * inner);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t y = 0; y < outputs; ++y) {
      for (std::size_t t = 0; t < all[y].inputs.size(); ++t) {
        const double* from = values.data() + (o * inputs + all[y].inputs[t]) * inner;
        double* to = result.data() + (o * outputs + y) * inner;
        for (std::int64_t i = 0; i < inner; ++i) to[i] += all[y].weights[t] * from[i];
      }
    }
  }
  return result;
}

Resampling find_resampling(const config::Backbone& backbone) {
  using enum config::Backbone::Variant;
  using enum config::Backbone::Name;
  const config::Backbone::Variant variant = config::find_variant(backbone);
  const bool has_registers = backbone.name == kDinoV2SmallReg || backbone.name == kDinoV2BaseReg;
  if (variant == kTorchvision) return Resampling::kAlignCorners;
  return variant == kTransformers && !has_registers ? Resampling::kPlain : Resampling::kAntialias;
}

// Returns the side of the square of so many patches; 0 if it is none.
std::int64_t side_of_square(std::int64_t patches) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(std::max(patches, 0L))));
  return side * side == patches ? side : 0;
}

}  // namespace

std::vector<float> resample(const std::vector<float>& values, Grid from, Grid to,
                            std::int64_t channels, Resampling resampling) {
  std::vector<double> rows(values.begin(), values.end());
  rows = resample_axis(rows, from.height, from.width, to.width, channels, resampling);
  rows = resample_axis(rows, 1, from.height, to.height, to.width * channels, resampling);
  return {rows.begin(), rows.end()};
}

std::vector<std::string> fit_positions(const graph::Graph& graph, const config::Backbone& backbone,
                                       std::vector<checkpoint::Tensor>& file) {
  std::vector<std::string> notes;
  for (const graph::LayerInfo& layer : graph.layers) {
    if (layer.kind != "PositionEmbedding") continue;
    const graph::Value& value = graph[layer.parameters.front()];
    const auto found = std::ranges::find(file, value.name, &checkpoint::Tensor::name);
    const std::optional<TokenGrid> grid = find_token_grid(graph, layer.output);
    if (found == file.end() || !grid) continue;
    const bool is_of_library = found->shape.rank() == 3;  // [1, tokens, channels]
    if (is_of_library) found->shape = {found->shape[1], found->shape[2]};
    const std::int64_t channels = value.shape[1];
    if (found->shape.rank() != 2 || found->shape[1] != channels) continue;
    const std::int64_t side = side_of_square(found->shape[0] - grid->before);
    const Grid from{side, side}, to{grid->height, grid->width};
    if (side == 0 || from == to || (!is_of_library && found->shape == value.shape)) continue;
    found->shape = value.shape;
    notes.push_back(concat("its position embeddings of ", side, 'x', side,
                           " patches are interpolated to ", to.height, 'x', to.width));
    if (found->values.empty()) continue;
    const auto patches = found->values.begin() + grid->before * channels;
    const std::vector<float> resampled =
        resample({patches, found->values.end()}, from, to, channels, find_resampling(backbone));
    found->values.erase(patches, found->values.end());
    found->values.insert(found->values.end(), resampled.begin(), resampled.end());
  }
  return notes;
}

}  // namespace trainer::model
