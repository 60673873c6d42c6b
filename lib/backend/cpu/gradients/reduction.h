// Gradients between backward and the update: summed over lanes, calls and ranks into one flat
// buffer, at the end of a call or bucket by bucket while backward still runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backend/cpu/gradients/gradient_sources.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/cpu/variables.h"
#include "backend/exchange.h"
#include "backend/work_record.h"

namespace trainer::backend::cpu {

// Returns the ranks that a collective of the CPU backend sums over; null if there is no collective.
cluster::Communicator* find_host_ranks(Collective* collective);

// Returns a lane's slice of `count` elements, in whole cache lines.
Slice lane_slice(std::int64_t count, int lane, int lanes);

// Calls f(i) for every `lanes`-th i from `lane` to `count` - 1.
template <class F>
void for_each_of_lane(std::size_t count, int lane, int lanes, const F& f) {
  const std::size_t step = lanes;
  for (auto i = static_cast<std::size_t>(lane); i < count; i += step) f(i);
}

class Reduction {
 public:
  // `trailer_size` is the number of values behind the gradients that are summed over the ranks with
  // the last gradients.
  Reduction(const CpuVariables& variables, const simd::Kernels& kernels,
            const ReductionOptions& options, std::size_t trailer_size);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  // Sets where the sum of the next call lies: in the buffer of its first source, which must hold
  // all elements and have room for the trailer behind them, or, if null, in a buffer that this
  // object allocates the first time.
  void sum_in(float* first_source);

  float* values() const { return values_; }
  std::span<float> trailer() const { return {values() + count_, trailer_size_}; }
  // Ordered, with several ranks: clears the trailers of all roots but the first.
  void clear_other_trailers() const;
  std::int64_t bytes() const { return sum_.bytes(); }

  // Ordered: chooses where the roots of the tree lie that the sources of the next call complete.
  // With several ranks, each root lies in the buffer of the first source that the root is made of,
  // and values() is the first root. With one rank, there is one root, which lies in values().
  void set_roots(const GradientSources& sources);

  // Computes values = (add ? values : 0) + the sources, in their order; without sources, zeros.
  // Ordered: computes the same for each root from its sources, in the order of the tree.
  void sum(Slice slice, const GradientSources& sources, bool add) const;

  // Sums values and trailer over the ranks.
  void reduce();

  // Records the sums over the ranks on the thread of buckets; null ends the recording.
  void record(WorkRecorder* recorder) { recorder_ = recorder; }

  // ---- Bucket by bucket, on a thread of its own ----
  const std::vector<Slice>& buckets() const { return buckets_; }
  // Returns whether calls may be reduced bucket by bucket.
  bool overlaps() const { return thread_.joinable(); }
  // Begins a call in which the lanes write `sources`, each lane into every bucket.
  void begin(const GradientSources& sources, bool add);
  // Each lane with samples calls it once it has written its part of a bucket.
  void arrive(std::size_t bucket);
  // Reports that the trailer is written.
  void trailer_written();
  // Blocks until all buckets and the trailer are summed over the ranks; throws what went wrong.
  void finish();
  // Returns the seconds of this call's sums over the ranks before finish() was called.
  double hidden_seconds() const { return hidden_seconds_; }
  // Ends a call that has failed, in which no lane will arrive any more.
  void abort() noexcept;

 private:
  void sum(Slice slice, Summands summands, bool add) const;
  void sum_roots(Slice slice, Summands summands, std::span<const TreeBlock> blocks, bool add) const;
  void all_reduce(std::int64_t first, std::size_t count);
  void serve();
  void reduce_buckets();

  const simd::Kernels& kernels_;
  bool ordered_;
  std::int64_t micro_batches_;
  cluster::Communicator* ranks_;  // null: there is one rank
  std::int64_t count_;
  std::size_t trailer_size_;
  Memory sum_;  // gradients, then the trailer
  float* values_ = nullptr;
  // Ordered: the place of each root, and the end of its sources. Calls with equally many sources
  // have the same ends, because a lane keeps its leaves.
  std::vector<float*> roots_;
  std::vector<std::size_t> root_ends_;
  std::vector<float*> shifted_roots_;  // scratch of all_reduce(): roots_ from its first element on
  std::vector<Slice> buckets_;
  WorkRecorder* recorder_ = nullptr;

  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::condition_variable changed_;
  GradientSources sources_;
  bool add_ = false, trailer_written_ = false, busy_ = false, stop_ = false, aborted_ = false;
  std::vector<std::size_t> arrived_;  // the number of lanes, by bucket
  std::exception_ptr error_;
  double reducing_seconds_ = 0;  // the time that thread_ spent on this call's sums
  double hidden_seconds_ = 0;
  std::thread thread_;
};

}  // namespace trainer::backend::cpu
