#include "results/run_files/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainer::results {
namespace {

// The 97.5 % quantile of Student's t with so many degrees of freedom, at least 1. Beyond the table
// Cornish-Fisher's expansion around the normal quantile, which is right to four digits there.
double student(std::size_t freedom) {
  static const std::vector<double> kQuantiles{12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
                                              2.4469,  2.3646, 2.3060, 2.2622, 2.2281};
  if (freedom <= kQuantiles.size()) return kQuantiles[freedom - 1];
  const double z = 1.959964, n = static_cast<double>(freedom);
  const double z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n);
}

}  // namespace

Estimate estimate(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {mean, none, none};
  }
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  const double half = student(values.size() - 1) * deviation / std::sqrt(count);
  return {mean, mean - half, mean + half};
}

Estimate estimate_share(const std::vector<double>& values) {
  Estimate share = estimate(values);
  if (share.low < 0) share.low = 0;
  if (share.high > 1) share.high = 1;
  return share;
}

double mcnemar(std::int64_t only_first, std::int64_t only_second) {
  const std::int64_t total = only_first + only_second;
  const auto n = static_cast<double>(total);
  double tail = 0;
  for (std::int64_t k = 0; k <= std::min(only_first, only_second); ++k) {
    const auto successes = static_cast<double>(k);
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(successes + 1) -
                     std::lgamma(n - successes + 1) - n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

}  // namespace trainer::results
