// The rate at which this machine reads images from files, to compare with the rate of a GPU that
// need not be here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "data/dataset.h"

namespace trainer::commands {

struct DecodeRate {
  double images_per_second = 0;  // the rate of one core
  std::int64_t images = 0;       // the number of measured images
  std::string failure = {};      // the reason why there is no rate; otherwise ""
};

// Reads, decodes and augments images of the data set on the calling thread for about `seconds`, as
// in the first epoch. The images are spread over the data set. Throws DataError for a file that
// cannot be read.
DecodeRate measure_decoding(const data::Dataset& dataset, double seconds);

// Measures the training images of a config for half a second. A file that cannot be read is the
// failure. Returns nothing where an epoch decodes no files: for arrays and synthetic data, and
// where data.cache keeps decoded images.
std::optional<DecodeRate> measure_decoding(const config::Config& config);

// Returns the number of cores that decode `images_per_second` images per second, at least 1.
std::int64_t count_cores(const DecodeRate& rate, double images_per_second);

}  // namespace trainer::commands
