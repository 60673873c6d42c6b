// The embedded data set of digits.
#pragma once

#include <cstdint>
#include <string>

#include "base/split.h"
#include "data/arrays/array.h"

namespace trainer::data {

inline constexpr std::int64_t kTrainDigits = 20000, kTestDigits = 4000;

// Returns whether `folder` has the IDX files of a split, named like those of MNIST.
bool has_digits(const std::string& folder, Split split);
// Writes the data set of ten classes to four IDX files in `folder`, named like those of MNIST,
// unless they exist. Deterministic. Throws DataError if the files of a split belong to another data
// set.
void generate_digits(const std::string& folder, std::int64_t train_samples = kTrainDigits,
                     std::int64_t test_samples = kTestDigits);
// Draws the samples that the files of a split have, train or test.
struct DrawnDigits {
  Array images, labels;
};
DrawnDigits draw_digits(Split split);

}  // namespace trainer::data
