// Opens the splits of a config whose images and labels are arrays.
#pragma once

#include <set>

#include "base/split.h"
#include "config/sections/data.h"
#include "data/open.h"

namespace trainer::data {

// These functions open the wanted splits that the config has into `result`, with the number of
// classes. They throw DataError if a file is missing or damaged, or if the shapes of splits differ.
void open_idx(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
// Also adds a line on the arrays of data.path that no split uses.
void open_npz(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
void open_cifar(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
// Writes the files of digits first unless they exist; draws them in memory for a config that must
// not write.
void open_digits(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
void open_synthetic(const config::Data& config, std::uint64_t seed, const std::set<Split>& wanted,
                    Datasets& result);

// Returns whether data.path holds arrays of the validation split.
bool has_validation_arrays(const config::Data& config);

}  // namespace trainer::data
