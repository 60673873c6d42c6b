// Statistics of small samples of measurements.
#pragma once

#include <vector>

namespace trainer {

// The middle value; the mean of the two middle ones of an even count. `values` must not be empty.
double median(std::vector<double> values);

}  // namespace trainer
