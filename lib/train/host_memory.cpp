#include "train/host_memory.h"

#include <limits>

#include "base/error.h"
#include "config/keys.h"
#include "engine/engine.h"
#include "engine/fit_batch.h"

namespace trainer::train {
namespace {

constexpr std::int64_t kLoaderBatches = 4;  // the batches that the loader holds per replica

std::int64_t batch_bytes(const graph::Graph& model, std::int64_t samples) {
  const graph::Value& image = model[model.inputs[0]];
  return samples * image.shape.elements() * static_cast<std::int64_t>(size_of(image.type));
}

std::string in_mebibytes(std::int64_t bytes) { return concat(bytes >> 20, " MiB"); }

}  // namespace

std::int64_t host_bytes_per_replica(const graph::Graph& model, const config::Config& config,
                                    const backend::Platform& platform, std::int64_t samples) {
  const backend::MemoryReport memory = engine::planned_memory(
      model, config, samples, [&] { return engine::open_backends(config, platform); });
  return memory.total() + kLoaderBatches * batch_bytes(model, samples);
}

Notice host_memory_warning(const graph::Graph& model, const config::Config& config,
                           const backend::Platform& platform, const backend::MemoryReport& planned,
                           std::int64_t available) {
  const std::int64_t batch = config.train.batch_size;
  const std::int64_t replicas = config.parallel.replicas;
  const std::int64_t needed =
      planned.total() + replicas * kLoaderBatches * batch_bytes(model, batch);
  if (available == 0 || needed <= available) return "";
  const auto bytes = [&](std::int64_t samples) {
    try {
      return host_bytes_per_replica(model, config, platform, samples);
    } catch (const DeviceError&) {  // the allocation exceeds a limit on the address space
      return std::numeric_limits<std::int64_t>::max();
    }
  };
  const engine::BatchFit fit = engine::largest_batch(batch - 1, available / replicas, bytes);
  const std::string advice =
      fit.samples > 0 ? concat("The largest batch_size that fits is ", fit.samples)
                      : std::string("Not even one sample fits: use a smaller model or images");
  return concat(config::keys::kTrainBatchSize, ": ", batch, " needs ", in_mebibytes(needed),
                " of memory, but only ", in_mebibytes(available),
                " are available to this process (by the machine or its control group); the system "
                "may end it without a message. ",
                advice);
}

}  // namespace trainer::train
