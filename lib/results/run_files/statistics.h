// Intervals and tests of what several runs have measured.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::results {

struct Estimate {
  double mean = 0, low = 0, high = 0;  // 95 %
};

// The mean of at least one value with Student's interval; of one value the interval is not a
// number.
Estimate estimate(const std::vector<double>& values);
// The same for values in [0, 1]: Student's interval of few values, cut off at 0 and 1.
Estimate estimate_share(const std::vector<double>& values);

// McNemar's exact test, two-sided: the probability of a difference at least as large between two
// classifiers that are equally good. `only_first`, `only_second`: samples that one alone has right.
double mcnemar(std::int64_t only_first, std::int64_t only_second);

}  // namespace trainer::results
