// Weights of samples in the training loss.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace trainer::data {

// Returns the data set with labels as float rows that end with the weight of the sample. The
// numbers before the weight are those of mix_samples() for classes, and unchanged for several
// labels. Reasons: lib/decisions/data.md#weights-travel-in-the-labels.
std::unique_ptr<Dataset> weigh_samples(std::unique_ptr<Dataset> dataset, std::int64_t label_width);

}  // namespace trainer::data
