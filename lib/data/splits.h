// What can be told of the splits of a data set without reading an image.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/data.h"

namespace trainer::data {

// A config has no split of the name that was asked for; it is not that its files are missing.
class MissingSplit : public DataError {
 public:
  using DataError::DataError;
};

// How many samples each of `classes` classes has; empty when that is not known beforehand.
std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes);

// The samples to evaluate on: those that can be read, where `dataset` would take others in place of
// the rest; `dataset` itself otherwise. Throws DataError when none can be read.
std::unique_ptr<Dataset> without_damaged(std::unique_ptr<Dataset> dataset);

// Which of `size` samples data.validation_split sets aside, chosen by the seed alone; both parts
// are in rising order. Throws DataError for fewer than two samples.
struct Division {
  std::vector<std::int64_t> train, validation;
};
Division divide_samples(std::int64_t size, double fraction, std::uint64_t seed);

// Whether a split with the fingerprint `part` comes from the same samples, divided in the same way
// (data.validation_split), as the training data with the fingerprint `trained`.
bool same_division(const std::string& trained, const std::string& part);

}  // namespace trainer::data
