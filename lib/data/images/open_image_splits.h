// Opens the splits of a config whose samples are image files.
#pragma once

#include <set>

#include "base/split.h"
#include "config/sections/data.h"
#include "data/open.h"

namespace trainer::data {

// Opens the wanted splits that the config has into `result`, with the classes of the training
// split, which is listed for them even if it is not wanted. Throws DataError.
void open_image_splits(const config::Data& config, std::uint64_t seed,
                       const std::set<Split>& wanted, const Progress& progress, Datasets& result);

}  // namespace trainer::data
