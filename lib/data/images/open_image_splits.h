// The splits of a config whose samples are image files.
#pragma once

#include <set>

#include "base/split.h"
#include "config/config.h"
#include "data/open.h"

namespace trainer::data {

// Opens the wanted splits that there are into `result`, with the classes: those of the training
// split, which is listed for them even when it is not wanted itself. Throws DataError.
void open_image_splits(const config::Data& config, std::uint64_t seed,
                       const std::set<Split>& wanted, Datasets& result);

}  // namespace trainer::data
