// The splits of a config whose images and labels are arrays.
#pragma once

#include <set>

#include "base/split.h"
#include "config/config.h"
#include "data/open.h"

namespace trainer::data {

// Open the wanted splits that there are into `result`, with the number of classes. Throw DataError
// when a file is missing or damaged, or splits do not fit together.
void open_idx(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
void open_npz(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
void open_cifar(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
// Writes the digits first, unless they are there.
void open_digits(const config::Data& config, const std::set<Split>& wanted, Datasets& result);
void open_synthetic(const config::Data& config, std::uint64_t seed, const std::set<Split>& wanted,
                    Datasets& result);

}  // namespace trainer::data
