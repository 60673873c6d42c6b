#include "train/loop/agreement.h"

#include <algorithm>

namespace trainer::train {

using hooks::Request;

StepVerdict Agreement::agree(StepVerdict own, std::span<engine::RankTimes> times) {
  if (group_.size() == 1) return own;
  if (!group_.is_chief()) own.due.evaluate = own.due.save = false;
  own.due.request = pending_;
  // The times are part of the same sum: every rank adds zeros to the times of other ranks.
  const StepVerdict::Numbers verdict = own.to_numbers();
  exchanged_.assign(verdict.begin(), verdict.end());
  for (const engine::RankTimes& rank : times) {
    exchanged_.insert(exchanged_.end(), rank.seconds.begin(), rank.seconds.end());
  }
  group_.sum(exchanged_);
  auto from = exchanged_.cbegin() + StepVerdict::kNumbers;
  for (engine::RankTimes& rank : times) {
    std::copy_n(from, engine::kStepPhases, rank.seconds.begin());
    from += engine::kStepPhases;
  }
  StepVerdict::Numbers sum;
  std::copy_n(exchanged_.begin(), sum.size(), sum.begin());
  return StepVerdict::from_sum(sum);
}

Request Agreement::submit(Request request) {
  if (group_.size() == 1) return request;
  pending_ = request;
  return Request::kContinue;
}

}  // namespace trainer::train
