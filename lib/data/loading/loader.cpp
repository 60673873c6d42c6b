#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/cores.h"
#include "base/error.h"
#include "data/data.h"
#include "data/reading.h"

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct FreeAligned {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

AlignedBytes allocate(std::size_t size) {
  return AlignedBytes(static_cast<std::byte*>(::operator new (size, std::align_val_t{64})));
}

// The memory of one batch, and how to fill it. Allocated once.
class Reader {
 public:
  Reader(const Dataset& dataset, const LoaderOptions& options)
      : dataset_(dataset),
        sampler_(dataset.size(), options.seed, options.shuffle),
        batch_size_(options.batch_size),
        rank_(options.rank),
        ranks_(options.ranks),
        passes_(options.passes),
        augment_(options.augment),
        image_bytes_(static_cast<std::size_t>(dataset.image_shape().elements()) *
                     size_of(dataset.image_type())),
        label_bytes_(dataset.label_is_index()
                         ? sizeof(std::int32_t)
                         : static_cast<std::size_t>(dataset.label_width()) * sizeof(float)) {}

  struct Slot {
    AlignedBytes images, labels;
    Batch batch;
  };

  Slot make_slot() const {
    const std::int64_t batch = std::min(batch_size_, dataset_.size() * passes_);
    const auto most = static_cast<std::size_t>((batch + ranks_ - 1) / ranks_);
    Slot slot{allocate(most * image_bytes_), allocate(most * label_bytes_), {}};
    slot.batch.images = slot.images.get();
    slot.batch.labels = slot.labels.get();
    slot.batch.indices.reserve(most);
    return slot;
  }

  void fill(Slot& slot, std::int64_t step) const {
    Batch& batch = slot.batch;
    const BatchRange each = batch_range(dataset_.size(), batch_size_ / passes_, step);
    batch.global = each.count * passes_;
    const Partition part = partition(batch.global, ranks_, rank_);
    const std::int64_t pass = passes_ == 1 ? 0 : part.first / each.count;
    batch.offset = part.first;
    batch.range = {each.epoch, each.first + part.first - pass * each.count, part.count};
    batch.indices.resize(static_cast<std::size_t>(part.count));
    for (std::int64_t done = 0; done < part.count; done += each.count) {
      // Pass p of P in epoch e is what a single one would be in epoch e * P + p.
      read(slot, static_cast<std::size_t>(done),
           {each.epoch * passes_ + pass + done / each.count, batch.range.first,
            std::min(each.count, part.count - done)});
    }
  }

 private:
  // Samples of one pass, to places from `to` on.
  void read(Slot& slot, std::size_t to, const BatchRange& range) const {
    const std::span<std::int64_t> indices =
        std::span(slot.batch.indices).subspan(to, static_cast<std::size_t>(range.count));
    sampler_.indices(range.epoch, range.first, indices);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      dataset_.get(indices[i], augment_ ? range.epoch : kNoEpoch,
                   slot.images.get() + (to + i) * image_bytes_,
                   slot.labels.get() + (to + i) * label_bytes_);
    }
  }

  const Dataset& dataset_;
  Sampler sampler_;
  std::int64_t batch_size_, rank_, ranks_, passes_;
  bool augment_;
  std::size_t image_bytes_, label_bytes_;
};

// Reads in next() itself: for data in memory, copying a batch costs less than waking a thread that
// competes with the computation for the same cores.
class DirectLoader final : public Loader {
 public:
  DirectLoader(const Dataset& dataset, const LoaderOptions& options)
      : reader_(dataset, options),
        step_(options.first_step),
        end_(options.end_step),
        slot_(reader_.make_slot()) {}

  const Batch* next() override {
    if (lent_) throw std::logic_error("loader: release() the batch before asking for the next");
    if (end_ && step_ >= *end_) return nullptr;
    const auto start = Clock::now();
    reader_.fill(slot_, step_);
    waited_ += seconds_since(start);
    lent_ = true;
    ++step_;
    return &slot_.batch;
  }
  void release() override { lent_ = false; }
  double seconds_waited() const override { return waited_; }
  std::string describe() const override { return "no reading ahead"; }

 private:
  Reader reader_;
  std::int64_t step_;
  std::optional<std::int64_t> end_;
  Reader::Slot slot_;
  bool lent_ = false;
  double waited_ = 0;
};

// A ring of batches: step s lives in slot s modulo the ring's size. A thread takes the next step
// number as soon as that slot is free, so steps may be finished in any order but are handed out in
// theirs.
class ThreadedLoader final : public Loader {
 public:
  ThreadedLoader(const Dataset& dataset, const LoaderOptions& options, std::int64_t threads,
                 std::int64_t prefetch)
      : reader_(dataset, options),
        deliver_(options.first_step),
        ticket_(options.first_step),
        end_(options.end_step),
        prefetch_(prefetch) {
    // One more than read ahead: the batch that the caller works on.
    for (std::int64_t i = 0; i <= prefetch; ++i) ring_.push_back({reader_.make_slot(), {}, false});
    for (std::int64_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this](std::stop_token stop) { work(stop); });
    }
  }

  ~ThreadedLoader() override {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
  }

  const Batch* next() override {
    std::unique_lock lock(mutex_);
    if (lent_) throw std::logic_error("loader: release() the batch before asking for the next");
    if (end_ && deliver_ >= *end_) return nullptr;
    Entry& entry = entry_of(deliver_);
    if (!entry.ready) {
      const auto start = Clock::now();
      filled_.wait(lock, [&] { return entry.ready; });
      waited_ += seconds_since(start);
    }
    if (entry.error) std::rethrow_exception(entry.error);
    lent_ = true;
    return &entry.slot.batch;
  }

  void release() override {
    {
      const std::lock_guard lock(mutex_);
      if (!lent_) return;
      lent_ = false;
      entry_of(deliver_).ready = false;
      ++deliver_;
    }
    freed_.notify_one();
  }

  double seconds_waited() const override { return waited_; }
  std::string describe() const override {
    return concat(threads_.size(), threads_.size() == 1 ? " thread, " : " threads, ", prefetch_,
                  prefetch_ == 1 ? " batch ahead" : " batches ahead");
  }

 private:
  struct Entry {
    Reader::Slot slot;
    std::exception_ptr error;
    bool ready;
  };

  Entry& entry_of(std::int64_t step) {
    return ring_[static_cast<std::size_t>(step) % ring_.size()];
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const bool go = freed_.wait(lock, stop, [&] {
        return ticket_ < deliver_ + static_cast<std::int64_t>(ring_.size()) || at_end();
      });
      if (!go || at_end()) return;
      const std::int64_t step = ticket_++;
      Entry& entry = entry_of(step);
      lock.unlock();
      std::exception_ptr error;
      try {
        reader_.fill(entry.slot, step);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      entry.error = error;
      entry.ready = true;
      filled_.notify_one();
    }
  }
  bool at_end() const { return end_ && ticket_ >= *end_; }

  Reader reader_;
  std::vector<Entry> ring_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::condition_variable_any freed_;
  std::int64_t deliver_;  // the step that next() hands out
  std::int64_t ticket_;   // the next step that no thread has taken
  std::optional<std::int64_t> end_;
  std::int64_t prefetch_;
  bool lent_ = false;
  double waited_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace

Reading reading_of(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                   bool in_memory) {
  const auto cores = static_cast<std::int64_t>(available_cores().size());
  if (prefetch && *prefetch < 1) return {1, 0};
  const std::int64_t readers = threads.value_or(in_memory ? 1 : cores);
  return {readers,
          std::max<std::int64_t>(1, prefetch.value_or(std::max<std::int64_t>(4, 2 * readers)))};
}

std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 1) throw DataError("data set", "holds no samples");
  if (options.batch_size < 1) throw ConfigError({}, "batch_size must be at least 1");
  const std::int64_t passes = options.passes;
  if (options.batch_size % passes != 0 || (passes > 1 && passes % options.ranks != 0)) {
    throw std::logic_error(concat("loader: ", passes, " passes for ", options.ranks,
                                  " ranks in batches of ", options.batch_size));
  }
  const bool chosen = options.threads || options.prefetch;
  const bool none = options.threads.value_or(1) < 1 || options.prefetch.value_or(1) < 1;
  const bool direct = chosen ? none : dataset.in_memory();
  if (direct) return std::make_unique<DirectLoader>(dataset, options);
  const Reading reading = reading_of(options.threads, options.prefetch, dataset.in_memory());
  return std::make_unique<ThreadedLoader>(dataset, options, reading.threads, reading.prefetch);
}

}  // namespace trainer::data
