// Finds the files of the splits of an image format.
#pragma once

#include "base/split.h"
#include "config/config.h"

namespace trainer::data {

// Returns where the files of a split of an image format are; where data.path alone is given, the
// folder or list in it that is named after the split (see split_folders.h). Path and glob are empty
// if there is none. Throws DataError if it is not clear which folder is which split.
config::SplitFiles image_split(const config::Data& data, Split split);

// Returns whether the files of a split are to be found in data.path by the name of the split.
bool needs_split_in_path(const config::Data& data, Split split);

}  // namespace trainer::data
