// Random changes of images that are in memory.
#pragma once

#include <cstdint>
#include <memory>

#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

// The data set with data.train.augment applied, mixing aside; itself when the list has nothing
// else. What is drawn is a function of (seed, epoch, index), as for image files. Throws ConfigError
// unless images are uint8 of 1 or 3 channels.
std::unique_ptr<Dataset> augment_arrays(std::unique_ptr<Dataset> dataset, const config::Data& data,
                                        std::uint64_t seed);

}  // namespace trainer::data
