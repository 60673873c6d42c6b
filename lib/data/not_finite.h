// Finds samples with numbers that are infinite or NaN.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/sections/data.h"
#include "data/dataset.h"

namespace trainer::data {

// Describes the samples of a split whose image or label holds NaN or infinity: the files, the first
// sample and the number of samples; "" if there are none. Reads all samples of arrays; image files
// contain only bytes.
std::string find_not_finite(const config::Data& config, Split split, const Dataset& dataset);
inline std::string find_not_finite(const config::Data& config, const Dataset& train) {
  return find_not_finite(config, Split::kTrain, train);
}

// Names the first few of the samples `indices` whose loss is not finite: "for 2 of the 32 samples
// of the batch: 17, 203". If all losses are finite, the text states that none of these samples is
// the cause.
std::string blame_samples(const Dataset& train, std::span<const std::int64_t> indices,
                          std::span<const float> losses);

}  // namespace trainer::data
