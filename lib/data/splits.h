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

// What a data set also is when it knows the classes of its samples beforehand.
class Labelled {
 public:
  virtual ~Labelled() = default;
  virtual std::int32_t label_of(std::int64_t index) const = 0;  // -1: not known
};

// How many samples each of `classes` classes has; empty when that is not known beforehand.
std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes);

// Files of a list that could not be read, so far, or that have no class.
struct Damage {
  std::int64_t skipped = 0, replaced = 0, files = 0;  // files: in the list
  std::vector<std::string> reasons = {};              // of those skipped; each begins with the file
  std::string without_class = {};  // a line on image files that lie in no folder of a class
};
// What a data set also is when it goes on without damaged files.
class DamageTolerant {
 public:
  virtual ~DamageTolerant() = default;
  virtual Damage damage() const = 0;
  // Where others would be taken in place of damaged samples: why each of these cannot be read, ""
  // when it can. get() of one of them throws from now on. Otherwise empty. Decodes every file once.
  virtual std::vector<std::string> unreadable(const std::vector<std::int64_t>& indices) = 0;
};
Damage damage_of(const Dataset& dataset);  // zeros where there is none

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
