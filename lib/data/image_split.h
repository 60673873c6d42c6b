// Finds the files of the splits of an image format.
#pragma once

#include "base/split.h"
#include "config/config.h"

namespace trainer::data {

// Returns the place of the files of a split of an image format. If the config gives data.path
// alone, this is the folder or list in it that is named after the split (see split_folders.h). Path
// and glob are empty if the split does not exist. Throws DataError if it is ambiguous which folder
// is which split.
config::SplitFiles image_split(const config::Data& data, Split split);

// Returns whether the files of a split are to be found in data.path by the name of the split.
bool needs_split_in_path(const config::Data& data, Split split);

}  // namespace trainer::data
