#include "commands/profile/peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/numbers/seconds.h"
#include "engine/engine.h"
#include "model/build_model.h"

namespace trainer::commands {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kChannels = 128, kSide = 28, kLayers = 4, kSamples = 16;
// A short call is over before other processes of a busy machine interrupt it.
constexpr std::int64_t kMinSamples = 2;

config::Config convolutions(const config::Config& config) {
  config::Config peak = config;
  peak.model = {};
  for (std::int64_t i = 0; i < kLayers; ++i) {
    config::ConvLayer conv;
    conv.filters = kChannels;
    conv.padding.kind = config::Padding::Kind::kSame;
    conv.use_bias = false;
    peak.model.layers.push_back({conv, {}, {}, {}});
  }
  peak.model.layers.push_back({config::GlobalAveragePoolLayer{}, {}, {}, {}});
  config::DenseLayer dense;
  dense.units = 2;
  peak.model.layers.push_back({dense, {}, {}, {}});
  peak.parallel.replicas = 1;
  peak.parallel.convolution = ConvolutionAlgorithm::kDirect;
  peak.parallel.reduction = config::Parallel::Reduction::kFast;
  peak.train.batch_size = kSamples;
  peak.evaluate.batch_size.reset();
  peak.data.normalize = config::Normalize{};
  peak.data.preprocess.reset();
  return peak;
}

}  // namespace

double measure_peak(const config::Config& config, const backend::Platform& platform,
                    double seconds) {
  const config::Config peak = convolutions(config);
  model::SampleSpec sample;
  sample.image = {kSide, kSide, kChannels};
  sample.image_type = DType::kFloat32;
  sample.classes = 2;
  const graph::Graph model = model::build_model(peak.model, peak.data, sample, 1);
  std::vector<std::unique_ptr<backend::Backend>> backends = engine::open_backends(config, platform);
  backends.resize(1);
  engine::Engine engine(model, peak, std::move(backends), engine::Use::kPredict);
  engine.initialise(1);
  const std::vector<float> images(kSamples * kSide * kSide * kChannels, 1);
  const double flops = 2.0 * 9 * kChannels * kChannels * kSide * kSide * kLayers;  // of a sample
  double best = 0;
  const Clock::time_point begin = Clock::now();
  const auto is_over = [&] { return seconds_since(begin) >= seconds; };
  for (int i = 0; i < 4 || !is_over(); ++i) {
    const std::int64_t samples = i % 2 == 0 ? kSamples : kMinSamples;
    const Clock::time_point start = Clock::now();
    engine.evaluate({samples, images.data(), false, nullptr});
    const std::chrono::duration<double> passed = Clock::now() - start;
    best = std::max(best, flops * static_cast<double>(samples) / passed.count());
  }
  return best;
}

}  // namespace trainer::commands
