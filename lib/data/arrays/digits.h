// The embedded data set of digits.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::data {

// Returns whether `folder` has the IDX files of both splits, named like those of MNIST.
bool has_digits(const std::string& folder);
// Writes the data set of ten classes to four IDX files in `folder`, named like those of MNIST,
// unless they exist. Deterministic. Throws DataError if the files of a split belong to another data
// set.
void generate_digits(const std::string& folder, std::int64_t train_samples = 20000,
                     std::int64_t test_samples = 4000);

}  // namespace trainer::data
