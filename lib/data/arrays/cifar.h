// Reads the binary files of CIFAR-10 and CIFAR-100.
#pragma once

#include <vector>

#include "data/arrays/array.h"

namespace trainer::data {

struct Cifar {
  Array images, labels;
};
// Reads files one after the other. A record is a label (CIFAR-100: a coarse label and a label) and
// three planes of 32 x 32 pixels. Throws DataError.
Cifar read_cifar(const std::vector<Path>& files);

}  // namespace trainer::data
