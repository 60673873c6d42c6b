// Checks the samples of arrays before training: `trainer data` for idx, npz, cifar, digits and
// synthetic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/split.h"
#include "base/types.h"
#include "config/sections/data.h"

namespace trainer::data {

struct ArraySplitCheck {
  Split split = Split::kTrain;
  std::int64_t samples = 0;
  std::vector<std::int64_t> per_class;  // by class or label; empty if labels are numbers
  Shape shape;                          // [height, width, channels]
  DType type = DType::kUInt8;
  float low = 0, high = 0;    // the range of all values
  std::int64_t constant = 0;  // samples all of whose values are equal
  std::int64_t copies = 0;    // samples that an earlier sample of the split equals
};

struct ArrayCheck {
  std::vector<std::string> classes;
  std::vector<ArraySplitCheck> splits;
  // Pairs of equal samples: in two splits, or with different labels, each with its place.
  std::vector<std::string> shared, conflicts;
  // Returns whether no equal samples are in two splits or have different labels.
  bool clean() const;
};

// Reads every sample of every split on all cores. The splits are those of training with this seed,
// with data.limit and data.validation_split or data.fold applied, without random changes. Two
// samples are equal if their bytes are. Throws DataError and ConfigError as open_datasets().
ArrayCheck check_arrays(const config::Data& data, std::uint64_t seed);

}  // namespace trainer::data
