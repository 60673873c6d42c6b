// The arrays of a split in an .npz file, by their names.
#pragma once

#include <string>
#include <vector>

#include "base/split.h"

namespace trainer::data {

struct SplitArrays {
  std::string images, labels;  // "" for none
};

// Finds the arrays of a split among those of the file `source`. A name consists of the split, as
// find_split_in_name() recognizes it, and of what the array holds: x, images, ... or y, labels,
// ...; the names of keras.datasets (x_train, y_train) come first. With `only_split`, names without
// a split count, too. Throws DataError if two arrays fit equally well.
SplitArrays find_split_arrays(const std::string& source, const std::vector<std::string>& held,
                              Split split, bool only_split);

}  // namespace trainer::data
