// Measures the throughput of steps that compute features apart from that of steps that read them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "hooks/hooks.h"

namespace trainer::hooks {

class InputThroughput {
 public:
  void add(const Progress& p) {
    Sum& sum = sums_[static_cast<std::size_t>(p.input)];
    sum.samples += static_cast<double>(p.samples);
    sum.seconds += p.step_seconds;
  }

  // Images per second with features being computed, and with cached ones; nothing unless the run
  // had steps of both kinds.
  struct Rates {
    double computing = 0, cached = 0;
  };
  std::optional<Rates> rates() const {
    const Sum& computing = sums_[static_cast<std::size_t>(StepInput::kNewFeatures)];
    const Sum& cached = sums_[static_cast<std::size_t>(StepInput::kCachedFeatures)];
    if (computing.seconds <= 0 || cached.seconds <= 0) return std::nullopt;
    return Rates{computing.samples / computing.seconds, cached.samples / cached.seconds};
  }

 private:
  struct Sum {
    double samples = 0, seconds = 0;
  };
  std::array<Sum, 3> sums_;  // by StepInput
};

}  // namespace trainer::hooks
