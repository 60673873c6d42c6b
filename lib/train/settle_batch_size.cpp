#include <algorithm>

#include "base/error.h"
#include "base/memory.h"
#include "config/keys.h"
#include "engine/fit_batch.h"
#include "engine/replicas.h"
#include "train/host_memory.h"
#include "train/open.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kMost = 1024;  // larger batches are seldom worth their memory

// What a bound is and where it comes from.
struct Bound {
  std::int64_t bytes = 0;  // of one replica
  std::string origin;
};

Bound bound_of(const config::Config& config, std::int64_t device_free) {
  if (config.train.memory_mb) {
    return {static_cast<std::int64_t>(*config.train.memory_mb * (1 << 20)), "train.memory_mb"};
  }
  if (device_free > 0) return {device_free / 10 * 9, "90 % of the GPU's free memory"};
  return {available_memory() / 2 / config.parallel.replicas,
          "half of the machine's free memory, shared by the replicas"};
}

}  // namespace

Notice settle_batch_size(config::Config& config, const graph::Graph& model, std::int64_t samples) {
  if (!config.train.batch_size.is_automatic()) return "";
  config.train.batch_size = 1;
  const auto backends = engine::open_backends(config);
  const std::int64_t device_free = engine::free_memory(config, backends);
  const Bound bound = bound_of(config, device_free);
  const std::int64_t share = samples / config.parallel.replicas;
  const std::int64_t most = samples > 0 ? std::clamp<std::int64_t>(share, 1, kMost) : kMost;
  const engine::BatchFit fit =
      engine::largest_batch(most, bound.bytes, [&](std::int64_t candidate) {
        if (device_free == 0) return host_bytes_per_replica(model, config, candidate);
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
  config.train.batch_size = fit.samples;
  return Notice::note(concat(
      config::keys::kTrainBatchSize, ": auto takes ", fit.samples, ": ", mebibytes(fit.bytes),
      " of ", mebibytes(bound.bytes), " a replica (", bound.origin, ")",
      fit.samples == most ? concat("; ", most, " is the most that it takes here") : ""));
}

}  // namespace trainer::train
