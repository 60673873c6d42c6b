// The decisions on which the ranks of a run agree after a step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "hooks/hooks.h"

namespace trainer::train {

// Actions that are due before the next step.
struct DueActions {
  bool evaluate = false;
  bool save = false;
  bool interrupted = false;  // interrupted by a signal
  hooks::Request request = hooks::Request::kContinue;

  bool any() const {
    return evaluate || save || interrupted || request != hooks::Request::kContinue;
  }
  void merge(const DueActions& other);
};

// A rank's share of the summary before the agreement; the summary of all ranks after it.
struct StepSummary {
  double loss = 0;                // mean loss of the step without penalty; a rank gives its share
  double accuracy = 0;            // mean accuracy; a rank gives its share
  std::optional<double> penalty;  // L2 penalty; nothing from a rank without samples
  DueActions due;
  bool unreadable = false;       // true if the data of a later step cannot be read
  std::uint64_t sample_ids = 0;  // hooks::StepRecord::sample_ids, the shares summed modulo 2^64

  // The summary is the element-wise sum of the values of all ranks. Ranks other than the chief
  // give zeros for the values that follow from its clock and hooks.
  static constexpr std::size_t kValues = 12;
  using Values = std::array<double, kValues>;
  Values to_values() const;
  static StepSummary from_sum(const Values& sum);
};

}  // namespace trainer::train
