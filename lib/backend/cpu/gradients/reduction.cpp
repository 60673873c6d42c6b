#include "backend/cpu/gradients/reduction.h"

#include <algorithm>
#include <stdexcept>

#include "backend/collective.h"
#include "base/numbers/partition.h"
#include "base/numbers/seconds.h"
#include "base/numbers/sum_tree.h"
#include "cluster/waiting.h"

namespace trainer::backend::cpu {

cluster::Communicator* find_host_ranks(Collective* collective) {
  if (collective == nullptr) return nullptr;
  cluster::Communicator* ranks = collective->host_ranks();
  if (ranks == nullptr) throw std::logic_error("a collective of the CPU backend sums host memory");
  return ranks;
}

Slice lane_slice(std::int64_t count, int lane, int lanes) {
  const Partition part = aligned_partition(count, lanes, lane, 16);
  return {part.first, part.first + part.count};
}

Reduction::Reduction(const CpuVariables& variables, const simd::Kernels& kernels,
                     const ReductionOptions& options, std::size_t trailer_size)
    : kernels_(kernels),
      ordered_(options.ordered),
      micro_batches_(options.micro_batches),
      ranks_(find_host_ranks(options.gradients)),
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
    sum_ = Memory((count_ + static_cast<std::int64_t>(trailer_size_)) * kFloatBytes);
  }
  values_ = sum_.as<float>();
}

void Reduction::set_roots(const GradientSources& sources) {
  if (root_ends_.empty() || root_ends_.back() != sources.own.size()) {
    root_ends_ = group_by_root(sources.blocks);
  }
  roots_.assign(1, values());
  for (std::size_t root = 1; root < root_ends_.size(); ++root) {
    // The sources are this executable's own buffers, which it may write.
    roots_.push_back(const_cast<float*>(sources.own[root_ends_[root - 1]]));
  }
}

void Reduction::clear_other_trailers() const {
  for (std::size_t root = 1; root < roots_.size(); ++root) {
    std::fill_n(roots_[root] + count_, trailer_size_, 0.0f);
  }
}

void Reduction::sum(Slice slice, const GradientSources& sources, bool add) const {
  sources.for_each_part(slice, [&](Slice part, Summands summands) {
    if (ordered_) {
      sum_roots(part, summands, sources.blocks, add);
    } else {
      sum(part, summands, add);
    }
  });
}

void Reduction::sum(Slice slice, Summands summands, bool add) const {
  const int count = static_cast<int>(summands.size());
  float* out = values() + slice.first;
  if (count == 1 && summands[0] == out) return;
  if (count == 0) {
    if (!add) std::fill(out, out + slice.count(), 0.0f);
    return;
  }
  kernels_.sum(out, summands.data(), count, slice.count(), add);
}

void Reduction::sum_roots(Slice slice, Summands summands, std::span<const TreeBlock> blocks,
                          bool add) const {
  const auto plus = [this](float* out, const float* a, const float* b, std::int64_t n) {
    const float* pair[] = {a, b};
    kernels_.sum(out, pair, 2, n, false);
  };
  std::size_t begin = 0;
  for (std::size_t root = 0; root < root_ends_.size(); begin = root_ends_[root++]) {
    const std::size_t count = root_ends_[root] - begin;
    const float* const* sources = summands.data() + begin;
    float* out = roots_[root] + slice.first;
    if (count == 1 && sources[0] == out) continue;
    if (count <= 2) {
      kernels_.sum(out, sources, static_cast<int>(count), slice.count(), add);
      continue;
    }
    for (std::int64_t i = 0; i < slice.count(); i += kTreeChunk) {
      const std::int64_t n = std::min(kTreeChunk, slice.count() - i);
      float total[kTreeChunk];
      complete_tree(blocks.subspan(begin, count), sources, i, n, total, plus);
      const float* from = total;
      kernels_.sum(out + i, &from, 1, n, add);
    }
  }
}

void Reduction::reduce() { all_reduce(0, static_cast<std::size_t>(count_) + trailer_size_); }

void Reduction::all_reduce(std::int64_t first, std::size_t count) {
  if (!ordered_) return ranks_->all_reduce(std::span(values() + first, count));
  shifted_roots_.clear();
  for (float* root : roots_) shifted_roots_.push_back(root + first);
  ranks_->all_reduce_tree(micro_batches_, shifted_roots_, count);
}

void Reduction::begin(const GradientSources& sources, bool add) {
  const std::lock_guard lock(mutex_);
  sources_ = sources;
  add_ = add;
  trailer_written_ = aborted_ = false;
  busy_ = true;
  std::ranges::fill(arrived_, std::size_t{0});
  error_ = nullptr;
  reducing_seconds_ = 0;
  changed_.notify_all();
}

void Reduction::arrive(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  if (++arrived_[bucket] == sources_.lanes) changed_.notify_all();
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
  const double waited = seconds_since(start);
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

// Buckets are sent in their order, whatever order they are written in, so that all ranks send the
// same.
void Reduction::reduce_buckets() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const bool last = i + 1 == buckets_.size();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return aborted_ || (arrived_[i] >= sources_.lanes && (!last || trailer_written_));
      });
      if (aborted_) return;
    }
    sum(buckets_[i], sources_, add_);
    const Clock::time_point start = Clock::now();
    const std::size_t count =
        static_cast<std::size_t>(buckets_[i].count()) + (last ? trailer_size_ : 0);
    const RecordedWork work(recorder_, WorkRecord::Kind::kAllReduce, kReductionThread,
                            static_cast<std::int64_t>(count * sizeof(float)));
    all_reduce(buckets_[i].first, count);
    reducing_seconds_ += seconds_since(start);
  }
}

}  // namespace trainer::backend::cpu
