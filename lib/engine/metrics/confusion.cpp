#include "engine/metrics/confusion.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/numbers/statistics.h"

namespace trainer::engine {
namespace {

// Returns the mean of value(class), in which a class has the weight weight(class).
template <class Value, class Weight>
double weighted_mean(const std::vector<ClassScores>& classes, const Value& value,
                     const Weight& weight) {
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    sum += weight(i) * value(classes[i]);
    weights += weight(i);
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void Confusion::add(std::int64_t actual, std::int64_t predicted, std::int64_t count) {
  counts_[static_cast<std::uint64_t>(actual * classes_ + predicted)] += count;
}

std::int64_t Confusion::at(std::int64_t actual, std::int64_t predicted) const {
  const auto found = counts_.find(static_cast<std::uint64_t>(actual * classes_ + predicted));
  return found == counts_.end() ? 0 : found->second;
}

std::vector<ConfusionCell> Confusion::cells() const {
  std::vector<ConfusionCell> cells;
  cells.reserve(counts_.size());
  for (const auto& [place, count] : counts_) {
    const auto at = static_cast<std::int64_t>(place);
    if (count != 0) cells.push_back({at / classes_, at % classes_, count});
  }
  std::ranges::sort(cells, [](const ConfusionCell& a, const ConfusionCell& b) {
    return a.actual != b.actual ? a.actual < b.actual : a.predicted < b.predicted;
  });
  return cells;
}

std::vector<ClassCounts> Confusion::class_counts() const {
  std::vector<ClassCounts> counts(classes_);
  for (const auto& [place, count] : counts_) {
    const auto n = static_cast<std::uint64_t>(classes_);
    counts[place / n].support += count;
    counts[place % n].predicted += count;
    if (place / n == place % n) counts[place / n].correct += count;
  }
  return counts;
}

std::vector<ClassScores> class_scores(std::span<const ClassCounts> counts) {
  std::vector<ClassScores> scores;
  scores.reserve(counts.size());
  for (const ClassCounts& one : counts) {
    ClassScores& score = scores.emplace_back();
    score.support = one.support;
    score.precision = share(one.correct, one.predicted);
    score.recall = share(one.correct, one.support);
    const double sum = score.precision + score.recall;
    score.f1 = sum > 0 ? 2 * score.precision * score.recall / sum : 0;
  }
  return scores;
}

ClassMeans class_means(std::span<const ClassCounts> counts) {
  const std::vector<ClassScores> scores = class_scores(counts);
  const auto f1 = [](const ClassScores& score) { return score.f1; };
  const auto recall = [](const ClassScores& score) { return score.recall; };
  const auto occurs = [&](std::size_t c) {
    return counts[c].support + counts[c].predicted > 0 ? 1.0 : 0.0;
  };
  const auto support = [&](std::size_t c) { return static_cast<double>(counts[c].support); };
  const auto has_samples = [&](std::size_t c) { return counts[c].support > 0 ? 1.0 : 0.0; };
  return {weighted_mean(scores, f1, occurs), weighted_mean(scores, f1, support),
          weighted_mean(scores, recall, has_samples)};
}

void keep_largest_confusions(std::vector<ConfusionCell>& cells, std::size_t max_cells) {
  std::erase_if(cells, [](const ConfusionCell& cell) {
    return cell.actual == cell.predicted || cell.count == 0;
  });
  std::ranges::stable_sort(cells, std::greater<>(), &ConfusionCell::count);
  if (cells.size() > max_cells) cells.resize(max_cells);
}

}  // namespace trainer::engine
