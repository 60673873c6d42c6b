// Compares the data sets of the processes of a job.
#pragma once

#include <string>

#include "data/open.h"

namespace trainer::data {

// Returns the facts that must be equal in all processes of a job, a line per fact and split ("test
// samples: 4000"): the classes, the number of samples, all labels, the content. The facts of the
// validation and test splits are included if `evaluation` is true.
std::string common_data(const Datasets& data, bool evaluation);

}  // namespace trainer::data
