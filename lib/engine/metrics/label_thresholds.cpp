#include "engine/metrics/label_thresholds.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "engine/metrics/binary_scores.h"

namespace trainer::engine {
namespace {

// Returns the threshold with the largest F1, and 1 below the smallest score where all samples are
// to be above it.
double find_f1_threshold(const std::vector<ScoreGroup>& groups, std::int64_t positives) {
  double best_f1 = -1, best = 0;
  std::int64_t above = 0, true_above = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    above += groups[i].positives + groups[i].negatives;
    true_above += groups[i].positives;
    const double f1 = share(2 * true_above, above + positives);
    if (f1 <= best_f1) continue;
    const double score = groups[i].score;
    best_f1 = f1;
    best = i + 1 < groups.size() ? (score + groups[i + 1].score) / 2 : score - 1;
  }
  return best;
}

}  // namespace

std::string to_string(const ThresholdGoal& goal) {
  return goal.criterion ? to_string(*goal.criterion) : "f1";
}

std::optional<ThresholdGoal> parse_threshold_goal(const std::string& text) {
  if (text == "f1") return ThresholdGoal{};
  const std::optional<OperatingCriterion> criterion = parse_operating_criterion(text);
  if (!criterion) return std::nullopt;
  return ThresholdGoal{criterion};
}

std::optional<double> find_threshold(std::span<const float> scores, std::span<const float> targets,
                                     const ThresholdGoal& goal) {
  BinaryScores known;  // the samples for which the label is known
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(targets[i])) continue;
    if (std::isnan(scores[i])) return std::nullopt;
    known.scores.push_back(static_cast<double>(scores[i]));
    known.is_positive.push_back(targets[i] > 0.5f);
  }
  const std::int64_t positives = known.positives();
  if (positives == 0) return std::nullopt;
  const std::vector<ScoreGroup> groups = group_by_score(known);
  if (!goal.criterion) return find_f1_threshold(groups, positives);
  // A score equal to an operating threshold is called positive; here only those above are.
  const double threshold = find_operating_threshold(known, *goal.criterion);
  if (std::isinf(threshold)) return groups.front().score;
  return threshold == groups.back().score ? threshold - 1 : threshold;
}

}  // namespace trainer::engine
