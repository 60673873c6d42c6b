#include "backend/cpu/lanes/batch_shares.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "base/error.h"
#include "base/partition.h"
#include "base/sum_tree.h"

namespace trainer::backend::cpu {

std::int64_t ranks_in(const ReductionOptions& reduction) {
  return reduction.gradients != nullptr ? reduction.gradients->size() : 1;
}

BatchShares::BatchShares(int workers, std::int64_t micro_batch_size,
                         const ReductionOptions& reduction)
    : workers_(workers),
      micro_batch_size_(micro_batch_size),
      ordered_(reduction.ordered),
      all_micro_batches_(reduction.micro_batches),
      ranks_(ranks_in(reduction)),
      rank_(reduction.gradients != nullptr ? reduction.gradients->rank() : 0) {
  if (!ordered_) return;
  const bool power = std::has_single_bit(static_cast<std::uint64_t>(all_micro_batches_));
  if (!power || all_micro_batches_ / ranks_ < workers_) {
    throw std::logic_error(concat("an ordered sum of ", all_micro_batches_, " micro-batches over ",
                                  ranks_, " ranks of ", workers_,
                                  " lanes: a power of two with one per lane is needed"));
  }
}

std::span<const WorkerShare> BatchShares::of(std::int64_t samples, std::int64_t all_samples) {
  std::vector<WorkerShare>& shares = shares_[{samples, all_samples}];
  if (shares.empty()) shares = ordered_ ? divide_ordered(samples, all_samples) : divide(samples);
  return shares;
}

std::vector<WorkerShare> BatchShares::divide(std::int64_t samples) const {
  std::vector<WorkerShare> shares(static_cast<std::size_t>(workers_));
  const std::int64_t most = (samples + workers_ - 1) / workers_;
  const std::int64_t each = (most + micro_batch_size_ - 1) / micro_batch_size_;
  for (std::int64_t worker = 0; worker < workers_; ++worker) {
    WorkerShare& share = shares[static_cast<std::size_t>(worker)];
    // Earlier workers take what does not divide, so that the workers with work are the first ones.
    const std::int64_t rest = samples % workers_;
    const std::int64_t count = samples / workers_ + (worker < rest ? 1 : 0);
    const std::int64_t first = samples / workers_ * worker + std::min(worker, rest);
    const std::int64_t batches = count == 0 ? 0 : each;
    share.bounds.assign(1, first);
    for (std::int64_t i = 0; i < batches; ++i) {
      share.bounds.push_back(first + count * (i + 1) / batches);
    }
  }
  return shares;
}

// Which samples make up a micro-batch, and which micro-batches are neighbours, depends on the batch
// of all ranks alone.
std::vector<WorkerShare> BatchShares::divide_ordered(std::int64_t samples,
                                                     std::int64_t all_samples) const {
  const Partition mine = rank_samples(all_samples, all_micro_batches_, ranks_, rank_);
  if (mine.count != samples) {
    throw std::logic_error(concat("rank ", rank_, " of ", ranks_, " was called with ", samples,
                                  " of ", all_samples, " samples; its part is ", mine.count));
  }
  const Partition leaves = partition(all_micro_batches_, ranks_, rank_);
  std::vector<WorkerShare> shares(static_cast<std::size_t>(workers_));
  for (std::int64_t worker = 0; worker < workers_; ++worker) {
    const Partition own = partition(leaves.count, workers_, worker);
    WorkerShare& share = shares[static_cast<std::size_t>(worker)];
    share.first_leaf = leaves.first + own.first;
    share.bounds.assign(
        1, partition(all_samples, all_micro_batches_, share.first_leaf).first - mine.first);
    for (std::int64_t leaf = share.first_leaf; leaf < share.first_leaf + own.count; ++leaf) {
      share.bounds.push_back(share.bounds.back() +
                             partition(all_samples, all_micro_batches_, leaf).count);
    }
  }
  return shares;
}

}  // namespace trainer::backend::cpu
