// The loader that keeps batches ready.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/host_buffer.h"
#include "base/partition.h"
#include "data/dataset.h"
#include "data/samples/sampler.h"

namespace trainer::config {
struct Config;
}

namespace trainer::data {

// This rank's part of a global batch, in memory of the loader. Valid until released. Images and
// labels each are the start of a HostBuffer of LoaderOptions::allocate.
struct Batch {
  BatchRange range;                   // of this part, in its first repetition
  std::int64_t offset = 0;            // of its first sample in the global batch
  std::int64_t global = 0;            // samples of the global batch
  const void* images = nullptr;       // count samples, packed
  const void* labels = nullptr;       // count labels
  std::vector<std::int64_t> indices;  // which samples
};

// A batch that was read, and when.
struct ReadBatch {
  std::int64_t step = 0;
  int thread = 0;  // of the loader; -1: the one that asks for batches
  std::chrono::steady_clock::time_point start, end;
};

struct LoaderOptions {
  std::int64_t batch_size = 1;  // of the global batch
  // This loader reads partition(batch, ranks, rank) or, where sums are ordered over `leaves` > 0
  // micro-batches, rank_samples(batch, leaves, ranks, rank). It may be empty.
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t leaves = 0;
  // How often an epoch uses each sample: a batch has batch_size / repetitions samples of each
  // repetition, one repetition after the other, and each repetition has its own order and random
  // changes. 1, or a multiple of ranks, so that a rank reads whole repetitions.
  std::int64_t repetitions = 1;
  // How many places one after the other have the same sample, each with random changes of its own:
  // position p of an epoch has the sample that without repeats is at p / repeats.
  std::int64_t repeats = 1;
  std::uint64_t seed = 0;
  bool shuffle = false;
  bool balance = false;                  // with shuffle; throws DataError for unknown classes
  bool augment = true;                   // whether random data sets get the epoch
  std::int64_t first_step = 0;           // batches before it are skipped without being read
  std::optional<std::int64_t> end_step;  // none: forever; otherwise next() gives null there
  std::optional<std::int64_t> prefetch;  // batches ready ahead
  std::optional<std::int64_t> threads;
  // Whether what of these two is not given, for data that is not in memory, starts small and grows
  // while the caller waits: as far as batches take longer to read than to use, up to a thread a
  // core. Otherwise it is chosen by the cores.
  bool adapt = false;
  std::int64_t out = 1;                    // batches that may be out at once, besides `prefetch`
  HostAllocator allocate = allocate_host;  // of the memory of images and labels
  // Called by the thread that has read a batch; null: nobody wants to know.
  std::function<void(const ReadBatch&)> when_read;
};

// Returns how a config reads its training data: seed, order, repeats, balance, prefetch and
// threads.
LoaderOptions make_loader_options(const config::Config& config);

// The number of reading threads and of batches to read ahead.
struct Reading {
  std::int64_t threads = 1;
  std::int64_t prefetch = 1;  // batches ready ahead
};
// Chooses values that are not given by the number of cores of this process. With a prefetch of 0,
// Loader::next() reads the batch itself.
Reading reading_of(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                   bool in_memory);

class BatchReader;

// Reads batches ahead in its own threads, or in next(). The content of batch k depends only on
// (seed, k). Not thread-safe. The data set must outlive it. Calls allocate no memory.
class Loader {
 public:
  // Allocates all memory, by options.allocate. Throws DataError when the data set is empty.
  Loader(const Dataset& dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, valid until released, or null after end_step. Throws std::logic_error when
  // options.out batches are not released. Rethrows the exception of a reading thread when its batch
  // is due.
  const Batch* next();
  // Releases the oldest batch that next() has returned; a no-op when there is none.
  void release();
  double seconds_waited() const { return waited_; }  // total time next() had to wait
  // "2 threads, 4 batches ahead", and what was measured where this was chosen so.
  std::string describe() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry;
  // What batches have taken since the last choice of threads.
  struct Measured {
    double read = 0, longest_read = 0, use = 0, wait = 0;  // seconds
    std::int64_t reads = 0, uses = 0;
  };

  Entry& entry_of(std::int64_t step);
  void work(const std::stop_token& stop, int thread);
  void read(Entry& entry, std::int64_t step, int thread);
  void start_threads(std::int64_t count);
  void adapt();
  bool at_end() const { return end_ && ticket_ >= *end_; }

  std::unique_ptr<BatchReader> reader_;
  std::function<void(const ReadBatch&)> when_read_;
  std::int64_t prefetch_ = 0;  // batches ahead
  // How far threads and batches ahead may grow; what they are where they are given.
  std::int64_t most_threads_ = 0, most_prefetch_ = 0;
  Measured measured_;
  std::string why_;  // they were chosen
  std::optional<Clock::time_point> handed_out_;
  std::int64_t out_;
  std::optional<std::int64_t> end_;
  // Step s is stored in ring_[s % ring_.size()], from reading until release. A thread reads the
  // next step as soon as its entry is free, so that steps may be finished in any order; next()
  // returns them in theirs.
  std::vector<Entry> ring_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable_any freed_;
  std::int64_t oldest_;  // the oldest step that is out; next_ when none is
  std::int64_t next_;    // the step that next() hands out
  std::int64_t ticket_;  // the next step that no thread has taken
  double waited_ = 0;
  std::vector<std::jthread> threads_;
};
std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options);

}  // namespace trainer::data
