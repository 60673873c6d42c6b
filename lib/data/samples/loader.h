// The loader that keeps batches ready.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/host_buffer.h"
#include "base/numbers/partition.h"
#include "base/process/progress.h"
#include "data/dataset.h"
#include "data/samples/sampler.h"

namespace trainer::config {
struct Config;
}

namespace trainer::data {

// This rank's part of a global batch, in memory of the loader. Valid until released. Images and
// labels each are at the start of a HostBuffer of LoaderOptions::allocate.
struct Batch {
  BatchRange range;                   // the place of this part in its first pass
  std::int64_t offset = 0;            // the place of its first sample in the global batch
  std::int64_t global = 0;            // samples of the global batch
  const void* images = nullptr;       // range.count samples, packed
  const void* labels = nullptr;       // range.count labels
  std::vector<std::int64_t> indices;  // the index of each sample in the data set
};

// The time at which a batch was read.
struct ReadBatch {
  std::int64_t step = 0;
  int thread = 0;  // a thread of the loader, from 0; -1 for the caller of next()
  std::chrono::steady_clock::time_point start, end;
};

struct LoaderOptions {
  std::int64_t batch_size = 1;  // samples of the global batch
  // This loader reads partition(batch, ranks, rank) or, where sums are ordered over `leaves` > 0
  // micro-batches, rank_samples(batch, leaves, ranks, rank). It may be empty.
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t leaves = 0;
  // The number of times that an epoch uses each sample: a batch has batch_size / passes_per_epoch
  // samples of each pass, one pass after the other, and each pass has its own
  // order and random changes. 1, or a multiple of ranks, so that a rank reads whole passes.
  std::int64_t passes_per_epoch = 1;
  // The number of consecutive positions that have the same sample, each with random changes of its
  // own: position p of an epoch has the sample that without repeats is at p / repeats.
  std::int64_t repeats = 1;
  // kDrop: an epoch ends with its last batch of batch_size samples.
  Remainder remainder = Remainder::kKeep;
  std::uint64_t seed = 0;
  bool shuffle = false;
  bool balance = false;                  // used with shuffle; needs a data set with known classes
  bool augment = true;                   // false: samples have no random changes
  std::int64_t first_step = 0;           // batches before it are skipped without being read
  std::optional<std::int64_t> end_step;  // next() returns null from here on; never if empty
  std::optional<std::int64_t> prefetch;  // batches that are read ahead
  std::optional<std::int64_t> threads;
  // If true, values of these two that are not given start small and grow while the caller waits,
  // for data that is not in memory: as far as batches take longer to read than to use, up to a
  // thread per core. Otherwise the number of cores decides.
  bool adapt = false;
  std::int64_t out = 1;                    // batches that the caller may hold at once
  HostAllocator allocate = allocate_host;  // allocates the memory of images and labels
  // Advances with the samples that are read, and has the waits of next().
  Progress progress = {};
  // Called by the thread that has read a batch, unless empty.
  std::function<void(const ReadBatch&)> when_read;

  // Returns the samples and the batches that each pass of an epoch uses of a data set of
  // `samples` samples.
  std::int64_t epoch_samples(std::int64_t samples) const {
    return samples_per_epoch(samples, batch_size / passes_per_epoch, remainder);
  }
  std::int64_t epoch_batches(std::int64_t samples) const {
    return batches_per_epoch(epoch_samples(samples), batch_size / passes_per_epoch);
  }
};

// Returns the options that a config gives for its training data: seed, order, repeats, remainder,
// balance, prefetch and threads.
LoaderOptions make_loader_options(const config::Config& config);

// The number of reading threads and of batches to read ahead.
struct Reading {
  std::int64_t threads = 1;
  std::int64_t prefetch = 1;  // batches that are read ahead
};
// Chooses the values that are not given by the number of cores of this process. With a prefetch of
// 0, Loader::next() reads the batch itself.
Reading choose_reading(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                       bool in_memory);

// Returns how many cores this process may use and, where reading takes `needed` cores and these are
// too few, which keys help: "this process may use 2; ...".
std::string describe_cores(std::int64_t needed);

class BatchReader;

// Reads batches ahead in its own threads, or in next(). The content of batch k depends only on
// (seed, k). Not thread-safe. The data set must outlive the loader. Calls do not allocate memory.
class Loader {
 public:
  // Allocates all memory with options.allocate. Throws DataError if the data set has no batch, or
  // if `balance` is set and a class is unknown.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch, valid until released, or null after end_step. Throws std::logic_error
  // if options.out batches are not released. Rethrows the exception of a reading thread once its
  // batch is due.
  const Batch* next();
  // Releases the oldest batch that next() has returned; does nothing if there is none.
  void release();
  // Returns the total time that next() has waited.
  double seconds_waited() const { return waited_; }
  // Returns the mean time that a thread takes to read a batch; 0 if no thread has read one.
  double read_seconds();
  // Returns "2 threads, 4 batches ahead", and the measurement by which they were chosen, if any.
  std::string describe() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry;
  // The times of batches since the last choice of threads.
  struct Measured {
    double read = 0, longest_read = 0, use = 0, wait = 0;  // seconds
    std::int64_t reads = 0, uses = 0;
  };

  Entry& find_entry(std::int64_t step);
  void work(const std::stop_token& stop, int thread);
  void read(Entry& entry, std::int64_t step, int thread);
  void start_threads(std::int64_t count);
  void adapt();
  bool at_end() const { return end_ && ticket_ >= *end_; }

  std::unique_ptr<BatchReader> reader_;
  Progress progress_;
  std::function<void(const ReadBatch&)> when_read_;
  std::int64_t prefetch_ = 0;  // batches that are read ahead
  // The limits of threads and of batches ahead; equal to them where they are given.
  std::int64_t max_threads_ = 0, max_prefetch_ = 0;
  Measured measured_;
  std::string why_;  // the reason of the choice
  std::optional<Clock::time_point> handed_out_;
  std::int64_t out_;
  std::optional<std::int64_t> end_;
  // Step s is stored in ring_[s % ring_.size()] from reading until release. A thread reads the next
  // step as soon as its entry is free, so that steps may be finished in any order; next() returns
  // them in the order of steps.
  std::vector<Entry> ring_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable_any freed_;
  std::int64_t oldest_;  // the oldest step that is not released; next_ if all are
  std::int64_t next_;    // the step that next() returns
  std::int64_t ticket_;  // the next step that no thread has taken
  double waited_ = 0;
  double read_ = 0;  // the time of all threads for `reads_` batches
  std::int64_t reads_ = 0;
  std::vector<std::jthread> threads_;
};
std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options);

}  // namespace trainer::data
