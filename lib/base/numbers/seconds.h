// Times of a clock as seconds.
#pragma once

#include <chrono>

namespace trainer {

template <class Clock>
double seconds_between(std::chrono::time_point<Clock> from, std::chrono::time_point<Clock> to) {
  return std::chrono::duration<double>(to - from).count();
}

template <class Clock>
double seconds_since(std::chrono::time_point<Clock> start) {
  return seconds_between(start, Clock::now());
}

}  // namespace trainer
