// Checks for numbers that are infinite or NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace trainer {

inline bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace trainer
