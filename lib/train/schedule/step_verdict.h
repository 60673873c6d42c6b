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

// Holds this rank's share before the agreement, and the same on all ranks after it.
struct StepVerdict {
  double loss = 0;                // mean loss of the step without penalty; a rank gives its share
  double accuracy = 0;            // mean accuracy; a rank gives its share
  std::optional<double> penalty;  // L2 penalty; nothing from a rank without samples
  DueActions due;
  bool unreadable = false;       // true if the data of a later step cannot be read
  std::uint64_t sample_ids = 0;  // hooks::Progress::sample_ids, the shares summed modulo 2^64

  // The verdict is the element-wise sum of the numbers of all ranks. Ranks other than the chief
  // give zeros for the numbers that follow from its clock and hooks.
  static constexpr std::size_t kNumbers = 12;
  using Numbers = std::array<double, kNumbers>;
  Numbers to_numbers() const;
  static StepVerdict from_sum(const Numbers& sum);
};

}  // namespace trainer::train
