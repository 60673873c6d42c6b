// What a file of corrected labels changed.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::data {

struct RelabelCounts {
  std::string file;          // data.relabel
  std::int64_t changed = 0;  // samples with another label than before
  std::int64_t dropped = 0;  // samples that are left out

  // Returns a line for the user.
  std::string describe() const;
};

}  // namespace trainer::data
