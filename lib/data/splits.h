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

// What a data set also is when it knows the classes of its samples beforehand.
class Labelled {
 public:
  virtual ~Labelled() = default;
  virtual std::int32_t label_of(std::int64_t index) const = 0;  // -1: not known
};

// How many samples each of `classes` classes has; empty when that is not known beforehand.
std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes);

// Files of a list that could not be read, so far.
struct Damage {
  std::int64_t skipped = 0, replaced = 0, files = 0;  // files: in the list
};
// What a data set also is when it goes on without damaged files.
class DamageTolerant {
 public:
  virtual ~DamageTolerant() = default;
  virtual Damage damage() const = 0;
};
Damage damage_of(const Dataset& dataset);  // zeros where there is none

// Whether a split with the fingerprint `part` comes from the same samples, divided in the same way
// (data.validation_split), as the training data with the fingerprint `trained`.
bool same_division(const std::string& trained, const std::string& part);

}  // namespace trainer::data
