#include "train/schedule/step_summary.h"

#include <algorithm>

namespace trainer::train {

using hooks::Request;

namespace {

// A 64-bit number is sent as two halves, which doubles add exactly for up to 2^21 ranks.
constexpr std::uint64_t kLowHalf = 0xffffffffu;

}  // namespace

void DueActions::merge(const DueActions& other) {
  evaluate = evaluate || other.evaluate;
  save = save || other.save;
  interrupted = interrupted || other.interrupted;
  request = std::max(request, other.request);
}

StepSummary::Values StepSummary::to_values() const {
  const auto flag = [](bool value) { return value ? 1.0 : 0.0; };
  return {loss,
          accuracy,
          flag(due.interrupted),
          flag(due.evaluate),
          flag(due.save),
          flag(due.request == Request::kSave),
          flag(due.request == Request::kStop),
          penalty.value_or(0),
          flag(penalty.has_value()),
          flag(unreadable),
          static_cast<double>(sample_ids & kLowHalf),
          static_cast<double>(sample_ids >> 32)};
}

StepSummary StepSummary::from_sum(const Values& sum) {
  const auto [loss, accuracy, interrupted, evaluate, save, wants_save, wants_stop, penalty,
              penalties, unreadable, ids_low, ids_high] = sum;
  StepSummary summary;
  summary.loss = loss;
  summary.accuracy = accuracy;
  summary.due.interrupted = interrupted > 0;
  summary.due.evaluate = evaluate > 0;
  summary.due.save = save > 0;
  if (wants_save > 0) summary.due.request = Request::kSave;
  if (wants_stop > 0) summary.due.request = Request::kStop;
  // All ranks that have a penalty have the same one.
  if (penalties > 0) summary.penalty = penalty / penalties;
  summary.unreadable = unreadable > 0;
  summary.sample_ids =
      static_cast<std::uint64_t>(ids_low) + (static_cast<std::uint64_t>(ids_high) << 32);
  return summary;
}

}  // namespace trainer::train
