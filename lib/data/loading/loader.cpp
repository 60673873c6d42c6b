#include "data/loader.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "base/error.h"
#include "base/threads/cores.h"
#include "base/threads/thread_team.h"
#include "data/loading/batch_reader.h"
#include "data/reading.h"

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 1) throw DataError("data set", "holds no samples");
  if (options.batch_size < 1) throw ConfigError({}, "batch_size must be at least 1");
  const std::int64_t repetitions = options.repetitions;
  if (options.batch_size % repetitions != 0 ||
      (repetitions > 1 && repetitions % options.ranks != 0)) {
    throw std::logic_error(concat("loader: ", repetitions, " repetitions for ", options.ranks,
                                  " ranks in batches of ", options.batch_size));
  }
  if (options.out < 1) throw std::logic_error("loader: at least one batch must be out");
}

// For data in memory, copying a batch costs less than waking a thread that competes with the
// computation for the same cores.
Reading choose_reading(const Dataset& dataset, const LoaderOptions& options) {
  const bool in_memory = dataset.spec().in_memory;
  const bool chosen = options.threads || options.prefetch;
  const bool none = options.threads.value_or(1) < 1 || options.prefetch.value_or(1) < 1;
  if (chosen ? none : in_memory) return {0, 0};
  return reading_of(options.threads, options.prefetch, in_memory);
}

}  // namespace

struct Loader::Entry {
  BatchBuffer buffer;
  std::exception_ptr error;
  bool ready = false;
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : out_(options.out),
      end_(options.end_step),
      oldest_(options.first_step),
      next_(options.first_step),
      ticket_(options.first_step) {
  check(dataset, options);
  reader_ = std::make_unique<BatchReader>(dataset, options);
  const Reading reading = choose_reading(dataset, options);
  prefetch_ = reading.prefetch;
  for (std::int64_t i = 0; i < prefetch_ + out_; ++i) {
    ring_.push_back({reader_->allocate(options.allocate), {}, false});
  }
  for (std::int64_t i = 0; i < reading.threads; ++i) {
    try {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    } catch (const std::system_error& error) {
      throw no_thread(error, i, reading.threads, "data.threads");
    }
  }
}

Loader::~Loader() {
  for (auto& thread : threads_) thread.request_stop();
  threads_.clear();
}

const Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  if (next_ - oldest_ == out_) {
    throw std::logic_error("loader: release() a batch before asking for another");
  }
  if (end_ && next_ >= *end_) return nullptr;
  Entry& entry = entry_of(next_);
  if (!entry.ready) {
    const auto start = Clock::now();
    if (threads_.empty()) {
      reader_->fill(entry.buffer, next_);
      entry.ready = true;
    } else {
      filled_.wait(lock, [&] { return entry.ready; });
    }
    waited_ += seconds_since(start);
  }
  if (entry.error) std::rethrow_exception(entry.error);
  ++next_;
  return &entry.buffer.batch;
}

void Loader::release() {
  {
    const std::lock_guard lock(mutex_);
    if (oldest_ == next_) return;
    entry_of(oldest_).ready = false;
    ++oldest_;
  }
  freed_.notify_one();
}

std::string Loader::describe() const {
  if (threads_.empty()) return "no reading ahead";
  return concat(threads_.size(), threads_.size() == 1 ? " thread, " : " threads, ", prefetch_,
                prefetch_ == 1 ? " batch ahead" : " batches ahead");
}

Loader::Entry& Loader::entry_of(std::int64_t step) {
  return ring_[static_cast<std::size_t>(step) % ring_.size()];
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool go = freed_.wait(lock, stop, [&] {
      return ticket_ < oldest_ + static_cast<std::int64_t>(ring_.size()) || at_end();
    });
    if (!go || at_end()) return;
    const std::int64_t step = ticket_++;
    Entry& entry = entry_of(step);
    lock.unlock();
    std::exception_ptr error;
    try {
      reader_->fill(entry.buffer, step);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    entry.error = error;
    entry.ready = true;
    filled_.notify_one();
  }
}

Reading reading_of(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                   bool in_memory) {
  const auto cores = static_cast<std::int64_t>(available_cores().size());
  if (prefetch && *prefetch < 1) return {1, 0};
  const std::int64_t readers = threads.value_or(in_memory ? 1 : cores);
  return {readers,
          std::max<std::int64_t>(1, prefetch.value_or(std::max<std::int64_t>(4, 2 * readers)))};
}

std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options) {
  return std::make_unique<Loader>(dataset, options);
}

}  // namespace trainer::data
