#include "commands/profile/limits.h"

#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "base/numbers/seconds.h"
#include "engine/engine.h"
#include "model/build_model.h"

namespace trainer::commands {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMemoryBytes = 96e6;  // of a thread's arrays: more than its share of the caches
constexpr double kDefaultCacheBytes = 1e6;  // of a core, if the system has no value

double find_core_cache_bytes() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<double>(bytes) : kDefaultCacheBytes;
}

// One loop, compiled three times. target_clones would do it too, but chooses before ThreadSanitizer
// has begun, which crashes.
#define TRAINER_TRIAD_LOOP \
  for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 0.5f * c[i];

__attribute__((target("avx512f"))) void triad_avx512(float* __restrict a, const float* __restrict b,
                                                     const float* __restrict c, std::size_t count) {
  TRAINER_TRIAD_LOOP
}
__attribute__((target("avx2"))) void triad_avx2(float* __restrict a, const float* __restrict b,
                                                const float* __restrict c, std::size_t count) {
  TRAINER_TRIAD_LOOP
}
void triad_plain(float* __restrict a, const float* __restrict b, const float* __restrict c,
                 std::size_t count) {
  TRAINER_TRIAD_LOOP
}
#undef TRAINER_TRIAD_LOOP

void triad(float* a, const float* b, const float* c, std::size_t count) {
  static const auto kTriad = __builtin_cpu_supports("avx512f") ? triad_avx512
                             : __builtin_cpu_supports("avx2")  ? triad_avx2
                                                               : triad_plain;
  kTriad(a, b, c, count);
}

// Bytes a second that the threads get together, the best of several rounds, where each works on
// three arrays of so many bytes together.
double measure_triad(int threads, double bytes_of_thread, double seconds) {
  const auto count = static_cast<std::size_t>(bytes_of_thread / 3 / sizeof(float));
  const int repetitions = std::max(1, static_cast<int>(kMemoryBytes / bytes_of_thread));
  double best = 0;
  bool over = false;
  Clock::time_point start;
  const Clock::time_point begin = Clock::now();
  // Whichever thread arrives last takes the time of the round that ends there.
  const auto end_round = [&]() noexcept {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> round = now - start;
    const double bytes = 3.0 * sizeof(float) * static_cast<double>(count) * repetitions * threads;
    if (start != Clock::time_point{}) best = std::max(best, bytes / round.count());
    over = best > 0 && seconds_between(begin, now) > seconds;
    start = Clock::now();
  };
  std::barrier round(threads, end_round);
  const auto work = [&] {
    std::vector<float> a(count), b(count, 1), c(count, 1);
    while (true) {
      round.arrive_and_wait();
      if (over) return;
      for (int i = 0; i < repetitions; ++i) triad(a.data(), b.data(), c.data(), count);
    }
  };
  std::vector<std::jthread> team;
  for (int i = 1; i < threads; ++i) team.emplace_back(work);
  work();
  return best;
}

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

Bandwidth measure_bandwidth(int threads, double seconds) {
  Bandwidth bandwidth;
  bandwidth.memory = measure_triad(threads, kMemoryBytes, seconds / 2);
  // Half of a cache: the other half holds what else the core reads.
  bandwidth.cache = measure_triad(threads, find_core_cache_bytes() / 2, seconds / 2);
  bandwidth.cache_bytes = find_core_cache_bytes() * threads;
  return bandwidth;
}

double least_seconds(const ProfileRow& row, const Limits& limits) {
  if (!row.is_layer || limits.peak_flops <= 0 || limits.bandwidth.memory <= 0) return 0;
  const bool in_caches = row.bytes <= limits.bandwidth.cache_bytes;
  const double rate = in_caches ? limits.bandwidth.cache : limits.bandwidth.memory;
  return std::max(row.flops / limits.peak_flops, row.bytes / rate);
}

}  // namespace trainer::commands
