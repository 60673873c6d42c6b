#pragma once

#include <cstdlib>

#include "base/formats/table.h"

namespace trainer {

// Rounds to significant digits. 9 digits distinguish every float from its neighbours; with 7 digits
// a float that was written as 0.001 reads 0.001.
inline double rounded(double value, int digits) {
  return std::strtod(significant(value, digits).c_str(), nullptr);
}

}  // namespace trainer
