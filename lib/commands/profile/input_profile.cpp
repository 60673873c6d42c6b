#include "commands/profile/input_profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/numbers/seconds.h"
#include "base/threads/cores.h"
#include "commands/measure/batches.h"

namespace trainer::commands {
namespace {

using Clock = std::chrono::steady_clock;

// Batches in the asking thread, where every stage is seen.
void measure_stages(const data::Dataset& dataset, const config::Config& config, double seconds,
                    InputProfile& profile) {
  data::LoaderOptions options = loader_options(config);
  options.threads = options.prefetch = 0;
  const auto loader = data::make_loader(dataset, options);
  loader->next();  // what is allocated once
  loader->release();
  const data::StageWatch watch;
  const Clock::time_point start = Clock::now();
  double passed = 0;
  do {
    profile.samples += loader->next()->range.count;
    loader->release();
    passed = seconds_since(start);
  } while (passed < seconds);
  const auto samples = static_cast<double>(profile.samples);
  for (std::size_t i = 0; i < data::kReadStages; ++i) {
    profile.stages[i] = watch.seconds(static_cast<data::ReadStage>(i)) / samples;
  }
  profile.batch_seconds = (passed - watch.seconds()) / samples;
}

void measure_loader(const data::Dataset& dataset, const config::Config& config, double seconds,
                    InputProfile& profile) {
  const auto loader = data::make_loader(dataset, loader_options(config));
  profile.loader = loader->describe();
  // What is ready when the clock starts does not count.
  Clock::time_point start = Clock::now();
  while (seconds_since(start) < seconds / 4) {
    loader->next();
    loader->release();
  }
  start = Clock::now();
  std::int64_t samples = 0;
  double passed = 0;
  do {
    samples += loader->next()->range.count;
    loader->release();
    passed = seconds_since(start);
  } while (passed < seconds);
  profile.images_per_second = static_cast<double>(samples) / passed;
}

}  // namespace

double InputProfile::seconds_per_sample() const {
  return std::accumulate(stages.begin(), stages.end(), batch_seconds);
}

InputProfile profile_input(const data::Dataset& dataset, const config::Config& config,
                           double seconds, double device_rate, std::int64_t devices) {
  InputProfile profile;
  profile.in_memory = dataset.spec().in_memory;
  profile.cores = usable_core_count();
  measure_stages(dataset, config, seconds / 2, profile);
  measure_loader(dataset, config, seconds / 2, profile);
  if (device_rate <= 0) return profile;
  profile.devices_fed = profile.images_per_second / device_rate;
  const double wanted = device_rate * static_cast<double>(devices) * profile.seconds_per_sample();
  profile.suggested_threads =
      profile.in_memory ? 0 : std::max<std::int64_t>(1, std::llround(std::ceil(wanted)));
  return profile;
}

}  // namespace trainer::commands
