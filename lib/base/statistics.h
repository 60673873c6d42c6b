// Statistics of measurements and counts.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer {

// The middle value; the mean of the two middle ones of an even count. `values` must not be empty.
double median(std::vector<double> values);

// part / whole; 0 if `whole` is 0.
double share(std::int64_t part, std::int64_t whole);

}  // namespace trainer
