// How the samples of a call are divided among lanes and cut into micro-batches.
// Reasons: lib/decisions/backend.md#threads-split-the-batch.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace trainer::backend::cpu {

// A lane's share of a call: micro-batch i is samples [bounds[i], bounds[i + 1]), and may be
// empty.
struct LaneShare {
  std::vector<std::int64_t> bounds{0};
  std::int64_t first_leaf = 0;  // ordered: the leaf of micro-batch 0 (base/numbers/sum_tree.h)
  std::int64_t micro_batches() const { return std::ssize(bounds) - 1; }
  std::int64_t count() const { return bounds.back() - bounds.front(); }
  std::int64_t micro_batch_first(std::int64_t i) const { return bounds[i]; }
  std::int64_t micro_batch_count(std::int64_t i) const {
    return micro_batch_first(i + 1) - micro_batch_first(i);
  }
};

// Returns the number of ranks that gradients are summed over.
std::int64_t ranks_in(const ReductionOptions& reduction);

class BatchShares {
 public:
  // A micro-batch has at most `micro_batch_size` samples, but for ordered sums, which fix the
  // number of micro-batches of all ranks instead. Throws std::logic_error if that number is not a
  // power of two, or is less than one per lane.
  BatchShares(int lanes, std::int64_t micro_batch_size, const ReductionOptions& reduction);

  // Returns the share of each lane of a call with `samples` samples of this rank and
  // `all_samples` of all ranks. If sums are not ordered, the lanes with samples come first and
  // have equally many micro-batches. If they are ordered, `samples` must be that of rank_samples()
  // (base/numbers/sum_tree.h), a micro-batch is a leaf, and every lane has at least one. The result
  // is valid as long as this object. Only one thread may call this at a time.
  std::span<const LaneShare> of(std::int64_t samples, std::int64_t all_samples);

 private:
  std::vector<LaneShare> divide(std::int64_t samples) const;
  std::vector<LaneShare> divide_ordered(std::int64_t samples, std::int64_t all_samples) const;

  std::int64_t lanes_;
  std::int64_t micro_batch_size_;
  bool ordered_;
  std::int64_t all_micro_batches_;  // ordered: the micro-batches of all ranks
  std::int64_t ranks_, rank_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<LaneShare>> shares_;
};

}  // namespace trainer::backend::cpu
