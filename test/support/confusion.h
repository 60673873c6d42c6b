// Confusion matrices from a test's numbers.
#pragma once

#include <cmath>
#include <vector>

#include "engine/metrics/confusion.h"

namespace trainer {

// The matrix whose rows (one per true class) are `counts`, one after the other.
inline engine::Confusion make_confusion(const std::vector<std::int64_t>& counts) {
  const auto classes = std::llround(std::sqrt(static_cast<double>(counts.size())));
  engine::Confusion confusion(classes);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(counts.size()); ++i) {
    const std::int64_t count = counts[static_cast<std::size_t>(i)];
    if (count != 0) confusion.add(i / classes, i % classes, count);
  }
  return confusion;
}

}  // namespace trainer
