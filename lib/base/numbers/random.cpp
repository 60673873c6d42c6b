#include "base/numbers/random.h"

#include <cmath>

namespace trainer {

std::uint64_t Random::below(std::uint64_t n) {
  const std::uint64_t threshold = (0 - n) % n;
  for (;;) {
    const unsigned __int128 product = static_cast<unsigned __int128>(next_u64()) * n;
    if (static_cast<std::uint64_t>(product) >= threshold) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

float Random::normal() {
  // 1 - u lies in (0, 1], so the logarithm is finite.
  const double u = 1.0 - static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
  const double v = static_cast<double>(next_u64() >> 11) * 0x1.0p-53;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) *
                            std::cos(2.0 * 3.14159265358979323846 * v));
}

}  // namespace trainer
