// Weights of samples in the training loss.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace trainer::data {

// Returns the data set with labels as float rows: those of mix_samples(), or of several labels the
// row as it is, and the weight of the sample.
// Reasons: lib/decisions/data.md#weights-travel-in-the-labels.
std::unique_ptr<Dataset> weigh_samples(std::unique_ptr<Dataset> dataset, std::int64_t label_width);

}  // namespace trainer::data
