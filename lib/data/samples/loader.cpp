#include "data/samples/loader.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/numbers/seconds.h"
#include "base/text.h"
#include "base/threads/cores.h"
#include "base/threads/thread_team.h"
#include "config/config.h"
#include "data/samples/batch_reader.h"

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

// The number of batches between two checks of the times that they have taken.
constexpr std::int64_t kBatchesPerCheck = 4;
// A larger share of time spent waiting is worth another thread.
constexpr double kLittleWaiting = 0.02;
// Threads are chosen for batches that take this many times longer to read than measured.
constexpr double kSpare = 1.2;

void check(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 1) throw DataError("data set", "contains no samples");
  if (options.batch_size < 1) throw ConfigError({}, "batch_size must be at least 1");
  const std::int64_t passes_per_epoch = options.passes_per_epoch;
  if (options.batch_size % passes_per_epoch != 0 ||
      (passes_per_epoch > 1 && passes_per_epoch % options.ranks != 0)) {
    throw std::logic_error(concat("loader: ", passes_per_epoch, " passes per epoch for ",
                                  options.ranks, " ranks in batches of ", options.batch_size));
  }
  if (options.epoch_samples(dataset.size()) < 1) {
    throw DataError("data set", "has only ", dataset.size(), " samples for a batch of ",
                    options.batch_size / passes_per_epoch);
  }
  if (options.out < 1) throw std::logic_error("loader: at least one batch must be out");
}

// For data in memory, copying a batch costs less than waking a thread that competes with the
// computation for the same cores.
Reading resolve_reading(const Dataset& dataset, const LoaderOptions& options) {
  const bool in_memory = dataset.spec().in_memory && !dataset.spec().is_random;
  const bool chosen = options.threads || options.prefetch;
  const bool none = options.threads.value_or(1) < 1 || options.prefetch.value_or(1) < 1;
  if (chosen ? none : in_memory) return {0, 0};
  return choose_reading(options.threads, options.prefetch, in_memory);
}

}  // namespace

struct Loader::Entry {
  BatchBuffer buffer;
  std::exception_ptr error;
  bool ready = false;
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : progress_(options.progress),
      when_read_(options.when_read),
      out_(options.out),
      end_(options.end_step),
      oldest_(options.first_step),
      next_(options.first_step),
      ticket_(options.first_step) {
  check(dataset, options);
  reader_ = std::make_unique<BatchReader>(dataset, options);
  const Reading reading = resolve_reading(dataset, options);
  prefetch_ = max_prefetch_ = reading.prefetch;
  max_threads_ = reading.threads;
  for (std::int64_t i = 0; i < max_prefetch_ + out_; ++i) {
    ring_.push_back({reader_->allocate(options.allocate), {}, false});
  }
  const bool grows = options.adapt && reading.threads > 0;
  if (grows && !options.prefetch) prefetch_ = std::min<std::int64_t>(2, max_prefetch_);
  start_threads(grows && !options.threads ? 1 : max_threads_);
}

// Starts threads until there are `count`.
void Loader::start_threads(std::int64_t count) {
  for (auto i = std::ssize(threads_); i < count; ++i) {
    try {
      threads_.emplace_back(
          [this, i](const std::stop_token& stop) { work(stop, static_cast<int>(i)); });
    } catch (const std::system_error& error) {
      throw no_thread(error, i, count, "data.threads");
    }
  }
}

// Chooses threads and batches ahead by the measured times: a batch must be ready for each step, and
// the batches that are ready must cover the longest read.
void Loader::adapt() {
  const Measured now = measured_;
  if (now.uses < kBatchesPerCheck || now.reads == 0) return;
  measured_ = {};
  const bool waits = now.wait > kLittleWaiting * (now.wait + now.use);
  const auto threads = std::ssize(threads_);
  if (!waits || (threads == max_threads_ && prefetch_ == max_prefetch_)) return;
  const double read = now.read / static_cast<double>(now.reads);
  const double use = now.use / static_cast<double>(now.uses);
  const auto times = [&](double seconds) {
    return use > 0 && seconds < 1e6 * use ? static_cast<std::int64_t>(std::ceil(seconds / use))
                                          : max_threads_ + max_prefetch_;
  };
  const std::int64_t wanted = std::max(threads + 1, times(kSpare * read));
  start_threads(std::min(wanted, max_threads_));
  const auto chosen = std::ssize(threads_);
  const std::int64_t ahead = std::max(prefetch_ + 1, chosen + times(now.longest_read));
  prefetch_ = std::min(ahead, max_prefetch_);
  why_ = concat("a batch takes ", fixed(1e3 * read, 1), " ms to read and ", fixed(1e3 * use, 1),
                " ms to use");
  freed_.notify_all();
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
  Entry& entry = find_entry(next_);
  const auto start = Clock::now();
  if (handed_out_) {
    measured_.use += seconds_between(*handed_out_, start);
    ++measured_.uses;
  }
  if (!entry.ready) {
    const ActivityScope scope(progress_, Activity::kInput);
    if (threads_.empty()) {
      read(entry, next_, -1);
      entry.ready = true;
    } else {
      adapt();
      filled_.wait(lock, [&] { return entry.ready; });
    }
    const double waited = seconds_since(start);
    waited_ += waited;
    measured_.wait += waited;
  }
  if (entry.error) std::rethrow_exception(entry.error);
  ++next_;
  handed_out_ = Clock::now();
  return &entry.buffer.batch;
}

void Loader::read(Entry& entry, std::int64_t step, int thread) {
  ReadBatch batch{step, thread, Clock::now(), {}};
  reader_->fill(entry.buffer, step);
  batch.end = Clock::now();
  if (when_read_) when_read_(batch);
}

void Loader::release() {
  {
    const std::lock_guard lock(mutex_);
    if (oldest_ == next_) return;
    find_entry(oldest_).ready = false;
    ++oldest_;
  }
  freed_.notify_one();
}

double Loader::read_seconds() {
  const std::lock_guard lock(mutex_);
  return reads_ > 0 ? read_ / static_cast<double>(reads_) : 0;
}

std::string Loader::describe() const {
  if (threads_.empty()) return "each batch is read when the step needs it";
  return concat(counted(std::ssize(threads_), "thread"), ", ", counted(prefetch_, "batch"),
                " ahead", why_.empty() ? why_ : concat(" (measured: ", why_, ")"));
}

Loader::Entry& Loader::find_entry(std::int64_t step) {
  return ring_[static_cast<std::size_t>(step) % ring_.size()];
}

void Loader::work(const std::stop_token& stop, int thread) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool go =
        freed_.wait(lock, stop, [&] { return ticket_ < oldest_ + out_ + prefetch_ || at_end(); });
    if (!go || at_end()) return;
    const std::int64_t step = ticket_++;
    Entry& entry = find_entry(step);
    lock.unlock();
    std::exception_ptr error;
    const auto start = Clock::now();
    try {
      read(entry, step, thread);
    } catch (...) {
      error = std::current_exception();
    }
    const double seconds = seconds_since(start);
    lock.lock();
    measured_.read += seconds;
    measured_.longest_read = std::max(measured_.longest_read, seconds);
    ++measured_.reads;
    read_ += seconds;
    ++reads_;
    entry.error = error;
    entry.ready = true;
    filled_.notify_one();
  }
}

std::string describe_cores(std::int64_t needed) {
  const std::int64_t usable = usable_core_count();
  return concat("this process may use ", usable,
                needed <= usable ? ""
                                 : "; data.cache keeps decoded images, and data.scaled_decode, "
                                   "smaller files or fewer changes in augment take less time");
}

Reading choose_reading(std::optional<std::int64_t> threads, std::optional<std::int64_t> prefetch,
                       bool in_memory) {
  const std::int64_t cores = usable_core_count();
  if (prefetch && *prefetch < 1) return {1, 0};
  const std::int64_t readers = threads.value_or(in_memory ? 1 : cores);
  return {readers,
          std::max<std::int64_t>(1, prefetch.value_or(std::max<std::int64_t>(4, 2 * readers)))};
}

LoaderOptions make_loader_options(const config::Config& config) {
  LoaderOptions options;
  options.seed = config.seed;
  options.shuffle = config.data.shuffle;
  options.repeats = config.data.repeats;
  if (config.data.drop_remainder) options.remainder = Remainder::kDrop;
  options.balance = config.data.sampling == config::Sampling::kBalanced;
  options.prefetch = config.data.prefetch;
  options.threads = config.data.threads;
  return options;
}

std::unique_ptr<Loader> make_loader(const Dataset& dataset, const LoaderOptions& options) {
  return std::make_unique<Loader>(dataset, options);
}

}  // namespace trainer::data
