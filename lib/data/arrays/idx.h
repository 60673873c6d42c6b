// IDX, the format of MNIST.
#pragma once

#include "data/arrays/array.h"

namespace trainer::data {

Array read_idx(const Path& path);

}  // namespace trainer::data
