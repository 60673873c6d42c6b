#include "train/schedule/step_verdict.h"

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

StepVerdict::Numbers StepVerdict::to_numbers() const {
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

StepVerdict StepVerdict::from_sum(const Numbers& sum) {
  const auto [loss, accuracy, interrupted, evaluate, save, wants_save, wants_stop, penalty,
              penalties, unreadable, ids_low, ids_high] = sum;
  StepVerdict verdict;
  verdict.loss = loss;
  verdict.accuracy = accuracy;
  verdict.due.interrupted = interrupted > 0;
  verdict.due.evaluate = evaluate > 0;
  verdict.due.save = save > 0;
  if (wants_save > 0) verdict.due.request = Request::kSave;
  if (wants_stop > 0) verdict.due.request = Request::kStop;
  // All ranks that have a penalty have the same one.
  if (penalties > 0) verdict.penalty = penalty / penalties;
  verdict.unreadable = unreadable > 0;
  verdict.sample_ids =
      static_cast<std::uint64_t>(ids_low) + (static_cast<std::uint64_t>(ids_high) << 32);
  return verdict;
}

}  // namespace trainer::train
