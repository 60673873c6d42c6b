// The embedded data set of digits.
#pragma once

#include <cstdint>
#include <string>

namespace trainer::data {

// Whether `folder` has the IDX files of both splits, under MNIST's names.
bool has_digits(const std::string& folder);
// Writes the embedded ten-class digit set to four IDX files with MNIST's names in `folder`, unless
// they exist. Deterministic.
void generate_digits(const std::string& folder, std::int64_t train_samples = 20000,
                     std::int64_t test_samples = 4000);

}  // namespace trainer::data
