// Compares the data sets of the processes of a job.
#pragma once

#include <string>

#include "data/open.h"

namespace trainer::data {

// The facts that must be equal in all processes of a job, a line for each fact of each split ("test
// samples: 4000"): the classes, the number of samples, all labels, the content. `evaluation`:
// includes the validation and test splits.
std::string common_data(const Datasets& data, bool evaluation);

}  // namespace trainer::data
