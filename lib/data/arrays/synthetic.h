// Makes random images for benchmarks.
#pragma once

#include <cstdint>
#include <memory>

#include "config/config.h"
#include "data/dataset.h"

namespace trainer::data {

// Returns the training split, or the test split if `test` is true.
std::unique_ptr<Dataset> make_synthetic(const config::Synthetic& config, std::uint64_t seed,
                                        bool test);

}  // namespace trainer::data
