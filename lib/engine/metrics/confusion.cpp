#include "engine/metrics/confusion.h"

#include <algorithm>

#include "base/numbers/statistics.h"

namespace trainer::engine {

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
  std::sort(cells.begin(), cells.end(), [](const ConfusionCell& a, const ConfusionCell& b) {
    return a.actual != b.actual ? a.actual < b.actual : a.predicted < b.predicted;
  });
  return cells;
}

std::vector<ClassCounts> Confusion::class_counts() const {
  std::vector<ClassCounts> counts(static_cast<std::size_t>(classes_));
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

void keep_largest_confusions(std::vector<ConfusionCell>& cells, std::size_t max_cells) {
  std::erase_if(cells, [](const ConfusionCell& cell) {
    return cell.actual == cell.predicted || cell.count == 0;
  });
  std::stable_sort(cells.begin(), cells.end(), [](const ConfusionCell& a, const ConfusionCell& b) {
    return a.count > b.count;
  });
  if (cells.size() > max_cells) cells.resize(max_cells);
}

}  // namespace trainer::engine
