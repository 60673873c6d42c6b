#include "backend/cpu/gradients/reduction.h"

#include <algorithm>
#include <utility>

#include "backend/host_collective.h"
#include "base/partition.h"
#include "cluster/waiting.h"

namespace trainer::backend::cpu {
namespace {

constexpr std::int64_t kReductionChunk = 1024;

// out = sources[0] + sources[1] + ... as a binary tree; their number is a power of two.
void tree_sum(const simd::Kernels& kernels, const float* const* sources, int count,
              std::int64_t first, std::int64_t n, float* out) {
  if (count <= 2) {
    const float* pair[] = {sources[0] + first, sources[count - 1] + first};
    kernels.sum(out, pair, count, n, false);
    return;
  }
  float right[kReductionChunk];
  tree_sum(kernels, sources, count / 2, first, n, out);
  tree_sum(kernels, sources + count / 2, count / 2, first, n, right);
  const float* pair[] = {out, right};
  kernels.sum(out, pair, 2, n, false);
}

}  // namespace

cluster::Communicator* ranks_of(Collective* collective) {
  return collective == nullptr ? nullptr : &dynamic_cast<HostCollective&>(*collective).ranks();
}

Slice worker_slice(std::int64_t count, int worker, int workers) {
  const Partition mine = aligned_partition(count, workers, worker, 16);
  return {mine.first, mine.first + mine.count};
}

Reduction::Reduction(const CpuVariables& variables, const simd::Kernels& kernels,
                     const ReductionOptions& options, std::size_t trailer_size)
    : kernels_(kernels),
      ordered_(options.ordered),
      ranks_(ranks_of(options.gradients)),
      count_(variables.flat_count()),
      trailer_size_(trailer_size) {
  if (ranks_ == nullptr || options.bucket_bytes <= 0) return;
  buckets_ = make_buckets(variables.segments(), count_, options.bucket_bytes);
  // The last bucket has no backward to hide behind.
  if (buckets_.size() < 2) return;
  arrived_.resize(buckets_.size());
  thread_ = std::thread([this] { serve(); });
}

Reduction::~Reduction() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Reduction::sum_in(float* first_source) {
  hidden_seconds_ = 0;
  values_ = first_source;
  if (first_source != nullptr) return;
  if (sum_.bytes() == 0) {
    sum_ = Memory((count_ + static_cast<std::int64_t>(trailer_size_)) *
                  static_cast<std::int64_t>(sizeof(float)));
  }
  values_ = sum_.as<float>();
}

void Reduction::sum(Slice slice, const GradientSources& sources, bool add) const {
  sources.for_each_part(slice, [&](Slice part, Summands summands) { sum(part, summands, add); });
}

void Reduction::sum(Slice slice, Summands summands, bool add) const {
  const int count = static_cast<int>(summands.size());
  float* out = values() + slice.first;
  if (count == 1 && summands[0] == out) return;
  if (count == 0) {
    if (!add) std::fill(out, out + slice.count(), 0.0f);
    return;
  }
  if (!ordered_ || count <= 2) {
    kernels_.sum(out, summands.data(), count, slice.count(), add);
    return;
  }
  for (std::int64_t i = 0; i < slice.count(); i += kReductionChunk) {
    const std::int64_t n = std::min(kReductionChunk, slice.count() - i);
    float total[kReductionChunk];
    const float* from = total;
    tree_sum(kernels_, summands.data(), count, i, n, total);
    kernels_.sum(out + i, &from, 1, n, add);
  }
}

void Reduction::reduce() const {
  ranks_->all_reduce(std::span(values(), static_cast<std::size_t>(count_) + trailer_size_));
}

void Reduction::begin(const GradientSources& sources, bool add) {
  const std::lock_guard lock(mutex_);
  sources_ = sources;
  add_ = add;
  trailer_written_ = aborted_ = false;
  busy_ = true;
  std::fill(arrived_.begin(), arrived_.end(), std::size_t{0});
  error_ = nullptr;
  reducing_seconds_ = 0;
  changed_.notify_all();
}

void Reduction::arrive(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (++arrived_[bucket] == sources_.own.size()) changed_.notify_all();
}

void Reduction::trailer_written() {
  const std::lock_guard lock(mutex_);
  trailer_written_ = true;
  changed_.notify_all();
}

void Reduction::finish() {
  const Clock::time_point start = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  const double waited = std::chrono::duration<double>(Clock::now() - start).count();
  hidden_seconds_ = std::max(0.0, reducing_seconds_ - waited);
  if (error_) std::rethrow_exception(error_);
}

void Reduction::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

void Reduction::serve() {
  cluster::sleep_when_waiting();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || busy_; });
    if (stop_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      reduce_buckets();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    busy_ = false;
    changed_.notify_all();
  }
}

// In the order of the buckets, whatever order they are written in: all ranks send the same.
void Reduction::reduce_buckets() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const bool last = i + 1 == buckets_.size();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return aborted_ || (arrived_[i] >= sources_.own.size() && (!last || trailer_written_));
      });
      if (aborted_) return;
    }
    sum(buckets_[i], sources_, add_);
    const Clock::time_point start = Clock::now();
    const std::span bucket(
        values() + buckets_[i].first,
        static_cast<std::size_t>(buckets_[i].count()) + (last ? trailer_size_ : 0));
    const RecordedWork work(recorder_, WorkRecord::Kind::kAllReduce, kReductionThread,
                            static_cast<std::int64_t>(bucket.size_bytes()));
    ranks_->all_reduce(bucket);
    reducing_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }
}

}  // namespace trainer::backend::cpu
