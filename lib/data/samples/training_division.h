// Divides the training samples of a config into a training and a validation part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/sections/data.h"
#include "data/samples/splits.h"
#include "data/samples/strata.h"

namespace trainer::data {

// Returns the samples that data.fold or data.validation_split sets aside for validation, as a
// function of the config, the strata, the groups and the seed alone. `groups` is that of
// list_groups(): whole groups are set aside, and the shares of strata are kept as far as these
// allow. Throws DataError.
//
// With data.validation_split_order, the parts are those of Keras 3. Of n samples and a fraction f,
// `last` keeps the first floor(n * (1 - f)) for training, as fit() does. `shuffled` shuffles as
// NumPy's RandomState(seed) and takes the last int(f * n) for validation, as
// image_dataset_from_directory(seed=seed) does. Groups are in the order of their first samples
// there; the first ones train, as many as bring the number of samples closest to Keras's.
Division divide_training_samples(const config::Data& data, const Strata& strata,
                                 std::span<const std::string> groups, std::uint64_t seed);

// Returns what sets samples aside: "data.validation_split: 0.2", "fold 2 of 5", or
// "data.validation_split: 0.2 (the last samples)".
std::string describe_rule(const config::Data& data);

// Returns the part of a fingerprint that identifies the division, without the name of the part.
std::string describe_division_key(const config::Data& data, const Strata& strata,
                                  std::span<const std::string> groups, std::uint64_t seed);

// Returns which share of all samples and of each class, or of the samples with each label, is in
// the validation part, beside the share that the config asks for.
std::string describe_shares(const config::Data& data, const Strata& strata,
                            const Division& division, const std::vector<std::string>& classes);

// Returns the number of groups and of samples in none: "2,073 files in 1,209 groups". `groups` is
// that of list_groups() and not empty.
std::string describe_groups(std::span<const std::string> groups);

}  // namespace trainer::data
