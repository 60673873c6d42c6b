// What can be told of the splits of a data set without reading an image.
#pragma once

#include <cstdint>
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

// Whether a split with the fingerprint `part` comes from the same samples, divided in the same way
// (data.validation_split), as the training data with the fingerprint `trained`.
bool same_division(const std::string& trained, const std::string& part);

}  // namespace trainer::data
