#include "base/formats/duration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace trainer {

std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  if (s >= 3600) return concat(s / 3600, ":", two(s / 60 % 60), ":", two(s % 60));
  return concat(s / 60, ":", two(s % 60));
}

}  // namespace trainer
