// Weights of samples in the training loss.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace trainer::data {

// The data set with labels as float rows: as those of mix_samples(), and then the sample's weight.
// Reasons: lib/decisions/data.md#weights-travel-in-the-labels.
std::unique_ptr<Dataset> weigh_samples(std::unique_ptr<Dataset> dataset, std::int64_t label_width);

}  // namespace trainer::data
