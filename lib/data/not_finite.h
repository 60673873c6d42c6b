// Samples whose numbers are not numbers.
#pragma once

#include <string>

#include "config/config.h"
#include "data/data.h"

namespace trainer::data {

// Names the files of the training split and the first sample of it with an image or label that is
// infinite or NaN, and says how many there are; "" when there is none. Looks at all samples of
// arrays; image files hold nothing but bytes.
std::string find_not_finite(const config::Data& config, const Dataset& train);

}  // namespace trainer::data
