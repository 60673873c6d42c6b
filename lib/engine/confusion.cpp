#include "engine/confusion.h"

#include <algorithm>

namespace trainer::engine {
namespace {

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

std::vector<ClassScores> class_scores(std::span<const ClassCounts> counts) {
  std::vector<ClassScores> scores;
  scores.reserve(counts.size());
  for (const ClassCounts& one : counts) {
    ClassScores& score = scores.emplace_back();
    score.support = one.support;
    score.precision = share_of(one.correct, one.predicted);
    score.recall = share_of(one.correct, one.support);
    const double sum = score.precision + score.recall;
    score.f1 = sum > 0 ? 2 * score.precision * score.recall / sum : 0;
  }
  return scores;
}

void keep_largest_confusions(std::vector<ConfusionCell>& cells, std::size_t most) {
  std::erase_if(cells, [](const ConfusionCell& cell) {
    return cell.actual == cell.predicted || cell.count == 0;
  });
  std::stable_sort(cells.begin(), cells.end(), [](const ConfusionCell& a, const ConfusionCell& b) {
    return a.count > b.count;
  });
  if (cells.size() > most) cells.resize(most);
}

}  // namespace trainer::engine
