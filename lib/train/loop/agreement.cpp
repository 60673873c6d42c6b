#include "train/loop/agreement.h"

#include <algorithm>

namespace trainer::train {

using hooks::Request;

StepSummary Agreement::agree(StepSummary share, std::span<engine::RankTimes> times) {
  if (group_.size() == 1) return share;
  if (!group_.is_chief()) share.due.evaluate = share.due.save = false;
  share.due.request = pending_;
  // The times are part of the same sum: every rank adds zeros to the times of other ranks.
  const StepSummary::Values summary = share.to_values();
  exchanged_.assign(summary.begin(), summary.end());
  for (const engine::RankTimes& rank : times) {
    exchanged_.insert(exchanged_.end(), rank.seconds.begin(), rank.seconds.end());
  }
  group_.sum(exchanged_);
  auto from = exchanged_.cbegin() + StepSummary::kValues;
  for (engine::RankTimes& rank : times) {
    std::copy_n(from, engine::kStepPhases, rank.seconds.begin());
    from += engine::kStepPhases;
  }
  StepSummary::Values sum;
  std::copy_n(exchanged_.begin(), sum.size(), sum.begin());
  return StepSummary::from_sum(sum);
}

Request Agreement::submit(Request request) {
  if (group_.size() == 1) return request;
  pending_ = request;
  return Request::kContinue;
}

}  // namespace trainer::train
