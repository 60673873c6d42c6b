// Fills the batches of a loader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_buffer.h"
#include "base/process/progress.h"
#include "data/samples/loader.h"
#include "data/samples/sampler.h"

namespace trainer::data {

// The memory of one batch, allocated once.
struct BatchBuffer {
  HostBuffer images, labels;
  Batch batch;
};

// Reads this rank's part of any batch of a data set, which must outlive the reader. Thread-safe.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, const LoaderOptions& options);

  // Allocates memory for the largest part.
  BatchBuffer allocate(const HostAllocator& allocate) const;
  // Reads batch `step` without allocating memory. Throws what the data set throws.
  void fill(BatchBuffer& buffer, std::int64_t step) const;

 private:
  void read(BatchBuffer& buffer, std::size_t to, const BatchRange& range) const;

  const Dataset& dataset_;
  Sampler sampler_;
  std::int64_t batch_size_, rank_, ranks_, leaves_, passes_per_epoch_, repeats_;
  std::int64_t epoch_samples_;  // samples per pass
  bool augment_;
  Progress progress_;
  std::size_t image_bytes_, label_bytes_;
};

}  // namespace trainer::data
