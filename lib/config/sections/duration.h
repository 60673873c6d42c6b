// A length of training or of time.
#pragma once

#include <string>

namespace trainer::config {

// "100 steps", "30 seconds", "1 epoch". A count in the user's own unit.
struct Duration {
  enum class Unit { kSteps, kEpochs, kSeconds };
  double count = 0;
  Unit unit = Unit::kSteps;
  bool operator==(const Duration&) const = default;
};
std::string to_string(const Duration& duration);

}  // namespace trainer::config
