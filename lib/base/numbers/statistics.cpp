#include "base/numbers/statistics.h"

#include <algorithm>
#include <cmath>

namespace trainer {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace trainer
