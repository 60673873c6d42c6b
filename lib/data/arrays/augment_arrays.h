// Applies random changes to images in memory.
#pragma once

#include <cstdint>
#include <memory>

#include "config/sections/data.h"
#include "data/dataset.h"

namespace trainer::data {

// Returns the data set with data.train.augment applied except mixing; `dataset` itself if the list
// has no other entries. The draws are functions of (seed, epoch, index), as for image files. Throws
// ConfigError unless images are uint8 with 1 or 3 channels.
std::unique_ptr<Dataset> augment_arrays(std::unique_ptr<Dataset> dataset, const config::Data& data,
                                        std::uint64_t seed);

}  // namespace trainer::data
