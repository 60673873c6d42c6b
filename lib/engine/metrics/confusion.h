// Counts samples by true class and predicted class: confusion matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace trainer::engine {

// The numbers of samples of one class.
struct ClassCounts {
  std::int64_t support = 0;    // samples whose true class it is
  std::int64_t predicted = 0;  // samples whose predicted class it is
  std::int64_t correct = 0;    // samples whose true and predicted class it is
};

// The number of samples of one true class that were predicted to be of one class.
struct ConfusionCell {
  std::int64_t actual = 0, predicted = 0, count = 0;
  bool operator==(const ConfusionCell&) const = default;
};

struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;  // 0 if the denominator is 0
  std::int64_t support = 0;
};
std::vector<ClassScores> class_scores(std::span<const ClassCounts> counts);

// scikit-learn's f1_score(average="macro" and "weighted") and balanced_accuracy_score. f1_macro is
// the mean F1 of the classes that are true or predicted for any sample, and f1_weighted weighs it
// by support. balanced_accuracy is the mean recall of the classes that have samples. NaN without
// samples.
struct ClassMeans {
  double f1_macro = 0, f1_weighted = 0, balanced_accuracy = 0;
};
ClassMeans class_means(std::span<const ClassCounts> counts);

// A confusion matrix. Its memory grows with the pairs of classes that occur, of which there are no
// more than samples: a dense matrix of 22,000 classes would take 3.9 GB in each copy of the
// metrics, and more as text in run.json. Scores by class need three counts per class (ClassCounts).
class Confusion {
 public:
  Confusion() = default;
  explicit Confusion(std::int64_t classes) : classes_(classes) {}

  // Both classes must be below classes().
  void add(std::int64_t actual, std::int64_t predicted, std::int64_t count = 1);
  std::int64_t classes() const { return classes_; }
  std::int64_t at(std::int64_t actual, std::int64_t predicted) const;
  // The cells that are not 0, by true class and then by predicted class.
  std::vector<ConfusionCell> cells() const;
  std::vector<ClassCounts> class_counts() const;
  bool operator==(const Confusion&) const = default;

 private:
  std::int64_t classes_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> counts_;  // keyed by actual * classes + predicted
};

// Keeps the cells off the diagonal, the largest counts first, and at most `max_cells` of them.
void keep_largest_confusions(std::vector<ConfusionCell>& cells, std::size_t max_cells);

}  // namespace trainer::engine
