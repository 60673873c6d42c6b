// Division and counts of the splits of a data set, without reading images.
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

// The config has no split with the requested name. (Missing files of a split throw DataError.)
class MissingSplit : public DataError {
 public:
  using DataError::DataError;
};

// The most classes that labels without names may have, for `samples` samples. A larger number is a
// mistake in the labels, and would exhaust memory.
std::int64_t most_classes(std::int64_t samples);

// The number of samples of each class; empty when labels are not known without reading images.
std::vector<std::int64_t> class_counts(const Dataset& dataset, std::int64_t classes);

// Reduces a data set for evaluation to the samples that can be read, instead of replacing the rest
// (on_error: replace); `files` then reports the samples left out. `dataset` holds `portion` of the
// samples of `files`, which may be null. Throws DataError when no sample can be read.
void leave_out_unreadable(std::unique_ptr<Dataset>& dataset, std::shared_ptr<DamagedFiles>& files,
                          DamagedFiles::Portion portion);

// The first `count` samples of a data set.
std::unique_ptr<Dataset> take_first(std::unique_ptr<Dataset> dataset, std::int64_t count);

// Which samples data.validation_split sets aside, chosen by the labels and the seed alone: of every
// class the same share, as far as whole samples allow. Both parts are in rising order. `labels`: of
// all samples, -1 where a sample has none that is known. Throws DataError for fewer than two
// samples.
struct Division {
  std::vector<std::int64_t> train, validation;
};
Division divide_samples(std::span<const std::int32_t> labels, double fraction, std::uint64_t seed);

struct SplitPair {
  std::unique_ptr<Dataset> train, validation;
};
// Sets `fraction` of the samples aside; both parts keep the file's order. `files` (may be null)
// learns which samples belong together.
SplitPair split_off(std::unique_ptr<Dataset> dataset, DamagedFiles* files, double fraction,
                    std::uint64_t seed);

// Whether a split with the fingerprint `part` comes from the same samples, divided in the same way
// (data.validation_split), as the training data with the fingerprint `trained`.
bool same_division(const std::string& trained, const std::string& part);

}  // namespace trainer::data
