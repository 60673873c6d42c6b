// The binary files of CIFAR-10 and CIFAR-100.
#pragma once

#include <vector>

#include "data/arrays/array.h"

namespace trainer::data {

// CIFAR's binary files, one after the other: records of a label (CIFAR-100: a coarse one and this)
// and the planes of 32 x 32 pixels.
struct Cifar {
  Array images, labels;
};
Cifar read_cifar(const std::vector<Path>& files);

}  // namespace trainer::data
