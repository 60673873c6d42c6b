// Statistics of measurements and counts, and probabilities.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

// Returns the middle value, or the mean of the two middle values of an even count. `values` must
// not be empty.
double median(std::vector<double> values);

// Returns part / whole, or 0 if `whole` is 0.
double share(std::int64_t part, std::int64_t whole);

// Returns the probability whose logarithm of the odds is `x`.
double sigmoid(double x);

}  // namespace trainer
