// What the ranks of a run agree on after a step.
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
  bool interrupted = false;  // by a signal
  hooks::Request request = hooks::Request::kContinue;

  bool any() const {
    return evaluate || save || interrupted || request != hooks::Request::kContinue;
  }
  void merge(const DueActions& other);
};

// Before the agreement this rank's share, after it the same on all ranks.
struct StepVerdict {
  double loss = 0;                // of the step's samples, the shares summed, without penalty
  double accuracy = 0;            // the same
  std::optional<double> penalty;  // of the weights; nothing from a rank without samples
  DueActions due;
  bool unreadable = false;       // the data of a step to come cannot be read
  std::uint64_t sample_ids = 0;  // hooks::Progress::sample_ids, the shares summed modulo 2^64

  // The verdict is the element-wise sum of the numbers of all ranks. Ranks other than the chief
  // give zeros for what follows from its clock and hooks.
  static constexpr std::size_t kNumbers = 12;
  using Numbers = std::array<double, kNumbers>;
  Numbers to_numbers() const;
  static StepVerdict from_sum(const Numbers& sum);
};

}  // namespace trainer::train
