// The clock of a run, which tests replace.
#pragma once

#include <chrono>
#include <functional>

namespace trainer::train {

// Returns seconds since any fixed point in time; never goes back.
using Clock = std::function<double()>;

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trainer::train
