// Measures the throughput of steps that compute features apart from that of steps that read them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "hooks/hooks.h"
#include "results/step_times.h"

namespace trainer::hooks {

class InputThroughput {
 public:
  void add(const StepRecord& p) {
    Sum& sum = sums_[static_cast<std::size_t>(p.input)];
    sum.samples += static_cast<double>(p.samples);
    sum.seconds += p.step_seconds;
  }

  // Returns the images per second of the steps with this input; nothing without such steps.
  std::optional<double> images_per_second(StepInput input) const {
    const Sum& sum = sums_[static_cast<std::size_t>(input)];
    return sum.seconds > 0 ? std::optional(sum.samples / sum.seconds) : std::nullopt;
  }
  results::FeatureRates feature_rates() const {
    return {images_per_second(StepInput::kNewFeatures),
            images_per_second(StepInput::kCachedFeatures)};
  }

 private:
  struct Sum {
    double samples = 0, seconds = 0;
  };
  std::array<Sum, 3> sums_;  // indexed by StepInput
};

}  // namespace trainer::hooks
