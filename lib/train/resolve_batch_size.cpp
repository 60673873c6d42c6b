#include "train/resolve_batch_size.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/memory.h"
#include "config/keys.h"
#include "engine/engine.h"
#include "engine/fit_batch.h"
#include "train/host_memory.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kMaxBatch = 1024;  // larger batches are seldom worth their memory

// A bound on memory and its origin.
struct Bound {
  std::int64_t bytes = 0;  // per replica
  std::string origin;
};

Bound find_bound(const config::Config& config, std::int64_t device_free) {
  if (config.train.memory_mb) {
    return {static_cast<std::int64_t>(*config.train.memory_mb * (1 << 20)), "train.memory_mb"};
  }
  if (device_free > 0) return {device_free / 10 * 9, "90 % of the GPU's free memory"};
  return {available_memory() / 2 / config.parallel.replicas,
          "half of the machine's free memory, shared by the replicas"};
}

}  // namespace

ChosenBatchSize choose_batch_size(config::Config config, const backend::Platform& platform,
                                  const graph::Graph& model, std::int64_t samples) {
  config.train.batch_size = 1;
  const bool measures = platform.planned_gpu.empty() && !config.train.memory_mb;
  const std::int64_t left = measures ? engine::free_memory_in_training(model, config, platform) : 0;
  const auto backends = engine::open_backends(config, platform);
  const std::int64_t device_free = measures ? left : engine::free_memory(config, backends);
  const Bound bound = find_bound(config, device_free);
  const std::int64_t share = samples / config.parallel.replicas;
  const std::int64_t max_samples =
      samples > 0 ? std::clamp<std::int64_t>(share, 1, kMaxBatch) : kMaxBatch;
  const engine::BatchFit fit =
      engine::largest_batch(max_samples, bound.bytes, [&](std::int64_t candidate) {
        if (device_free == 0) return host_bytes_per_replica(model, config, platform, candidate);
        return engine::planned_memory(model, config, candidate,
                                      [&] { return engine::plan_only(backends); })
            .total();
      });
  const auto mebibytes = [](std::int64_t bytes) { return concat(bytes >> 20, " MiB"); };
  if (fit.samples == 0) {
    throw ConfigError(config.train.loc,
                      concat(config::keys::kTrainBatchSize, ": auto: not even one sample fits ",
                             mebibytes(bound.bytes), " (", bound.origin,
                             "); raise train.memory_mb, or use a smaller model or images"));
  }
  return {fit.samples, concat(mebibytes(fit.bytes), " of ", mebibytes(bound.bytes),
                              " per replica (", bound.origin, ")",
                              fit.samples == max_samples
                                  ? concat("; ", max_samples, " is the most that it takes here")
                              : fit.misfit.empty() ? ""
                                                   : "; " + fit.misfit)};
}

Notice resolve_batch_size(config::Config& config, const backend::Platform& platform,
                          const graph::Graph& model, std::int64_t samples) {
  if (!config.train.batch_size.is_automatic()) return "";
  const ChosenBatchSize chosen = choose_batch_size(config, platform, model, samples);
  config.train.batch_size = chosen.samples;
  return Notice::note(
      concat(config::keys::kTrainBatchSize, ": auto takes ", chosen.samples, ": ", chosen.memory));
}

}  // namespace trainer::train
