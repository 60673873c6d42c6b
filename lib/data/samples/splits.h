// Divides and counts the samples of a split without reading images.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/damaged_files.h"
#include "data/dataset.h"

namespace trainer::data {

// The config does not have the requested split. (Missing files of a split throw DataError.)
class MissingSplit : public DataError {
 public:
  using DataError::DataError;
};

// Returns the largest number of classes that labels without names may have for `samples` samples. A
// larger number is an error of the labels, and would exhaust memory.
std::int64_t max_classes(std::int64_t samples);

// Returns the number of samples of each class; empty if labels are unknown without reading images.
std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes);

// Reduces a data set for evaluation to the samples that can be read, instead of replacing the
// others (on_error: replace); `files` then reports the samples left out. `dataset` contains
// `portion` of the samples of `files`, which may be null. Throws DataError if no sample can be
// read.
void leave_out_unreadable(std::unique_ptr<Dataset>& dataset, std::shared_ptr<DamagedFiles>& files,
                          DamagedFiles::Portion portion);

// Returns the first `count` samples of a data set.
std::unique_ptr<Dataset> take_first(std::unique_ptr<Dataset> dataset, std::int64_t count);
// Returns these samples of a data set, without random changes.
std::unique_ptr<Dataset> take_samples(std::unique_ptr<Dataset> dataset,
                                      std::vector<std::int64_t> indices);

struct Division {
  std::vector<std::int64_t> train, validation;  // sorted
};
// Chooses the samples that data.validation_split sets aside by the labels and the seed alone: the
// same share of every class, as far as whole samples allow. `labels` are those of all samples, -1
// for an unknown one. Throws DataError for fewer than two samples.
Division divide_samples(std::span<const std::int32_t> labels, double fraction, std::uint64_t seed);

struct SplitPair {
  std::unique_ptr<Dataset> train, validation;
};
// Makes a data set of each part of a division; both keep the order of `dataset`. Divides `files`,
// which may be null, in the same way. `key` identifies the division in the fingerprints.
SplitPair split_off(std::unique_ptr<Dataset> dataset, DamagedFiles* files, Division division,
                    const std::string& key);

// Returns whether a split with the fingerprint `part` is from the same samples, divided in the same
// way (data.validation_split, data.fold), as the training data with the fingerprint `trained`.
bool same_division(const std::string& trained, const std::string& part);

}  // namespace trainer::data
