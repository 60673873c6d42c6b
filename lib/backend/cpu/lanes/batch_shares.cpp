#include "backend/cpu/lanes/batch_shares.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "base/error.h"
#include "base/numbers/partition.h"
#include "base/numbers/sum_tree.h"

namespace trainer::backend::cpu {

std::int64_t ranks_in(const ReductionOptions& reduction) {
  return reduction.gradients != nullptr ? reduction.gradients->size() : 1;
}

BatchShares::BatchShares(int lanes, std::int64_t micro_batch_size,
                         const ReductionOptions& reduction)
    : lanes_(lanes),
      micro_batch_size_(micro_batch_size),
      ordered_(reduction.ordered),
      all_micro_batches_(reduction.micro_batches),
      ranks_(ranks_in(reduction)),
      rank_(reduction.gradients != nullptr ? reduction.gradients->rank() : 0) {
  if (!ordered_) return;
  const bool power = std::has_single_bit(static_cast<std::uint64_t>(all_micro_batches_));
  if (!power || all_micro_batches_ / ranks_ < lanes_) {
    throw std::logic_error(concat("an ordered sum of ", all_micro_batches_, " micro-batches over ",
                                  ranks_, " ranks of ", lanes_,
                                  " lanes: a power of two with one per lane is needed"));
  }
}

std::span<const LaneShare> BatchShares::of(std::int64_t samples, std::int64_t all_samples) {
  std::vector<LaneShare>& shares = shares_[{samples, all_samples}];
  if (shares.empty()) shares = ordered_ ? divide_ordered(samples, all_samples) : divide(samples);
  return shares;
}

std::vector<LaneShare> BatchShares::divide(std::int64_t samples) const {
  std::vector<LaneShare> shares(lanes_);
  const std::int64_t largest_share = (samples + lanes_ - 1) / lanes_;
  const std::int64_t each = (largest_share + micro_batch_size_ - 1) / micro_batch_size_;
  std::int64_t lane = 0;
  for (LaneShare& share : shares) {
    // Earlier lanes take what does not divide, so that the lanes with work are the first ones.
    const std::int64_t rest = samples % lanes_;
    const std::int64_t count = samples / lanes_ + (lane < rest ? 1 : 0);
    const std::int64_t first = samples / lanes_ * lane + std::min(lane, rest);
    const std::int64_t batches = count == 0 ? 0 : each;
    share.bounds.assign(1, first);
    for (std::int64_t i = 0; i < batches; ++i) {
      share.bounds.push_back(first + count * (i + 1) / batches);
    }
    ++lane;
  }
  return shares;
}

// The samples of a micro-batch and its neighbours depend only on the batch of all ranks.
std::vector<LaneShare> BatchShares::divide_ordered(std::int64_t samples,
                                                   std::int64_t all_samples) const {
  const Partition rank_part = rank_samples(all_samples, all_micro_batches_, ranks_, rank_);
  if (rank_part.count != samples) {
    throw std::logic_error(concat("rank ", rank_, " of ", ranks_, " was called with ", samples,
                                  " of ", all_samples, " samples; its part is ", rank_part.count));
  }
  const Partition leaves = partition(all_micro_batches_, ranks_, rank_);
  std::vector<LaneShare> shares(lanes_);
  std::int64_t lane = 0;
  for (LaneShare& share : shares) {
    const Partition lane_part = partition(leaves.count, lanes_, lane++);
    share.first_leaf = leaves.first + lane_part.first;
    share.bounds.assign(
        1, partition(all_samples, all_micro_batches_, share.first_leaf).first - rank_part.first);
    for (std::int64_t leaf = share.first_leaf; leaf < share.first_leaf + lane_part.count; ++leaf) {
      share.bounds.push_back(share.bounds.back() +
                             partition(all_samples, all_micro_batches_, leaf).count);
    }
  }
  return shares;
}

}  // namespace trainer::backend::cpu
