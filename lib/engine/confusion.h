// Which classes were taken for which.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trainer::engine {

// The samples of a class.
struct ClassCounts {
  std::int64_t support = 0;    // that are of the class
  std::int64_t predicted = 0;  // that were predicted to be
  std::int64_t correct = 0;    // both
};

// Samples of a class that were predicted to be of another, or of the same.
struct ConfusionCell {
  std::int64_t actual = 0, predicted = 0, count = 0;
  bool operator==(const ConfusionCell&) const = default;
};

struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;  // 0 where the denominator is
  std::int64_t support = 0;
};
std::vector<ClassScores> class_scores(std::span<const ClassCounts> counts);

// Keeps the cells off the diagonal, the largest counts first, and at most `most` of them.
void keep_largest_confusions(std::vector<ConfusionCell>& cells, std::size_t most);

}  // namespace trainer::engine
