#include "engine/metrics/label_thresholds.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "base/text.h"
#include "engine/metrics/binary_scores.h"

namespace trainer::engine {
namespace {

constexpr char kSensitivity[] = "sensitivity=";

}  // namespace

std::string to_string(const ThresholdGoal& goal) {
  return goal.sensitivity ? concat(kSensitivity, *goal.sensitivity) : "f1";
}

std::optional<ThresholdGoal> parse_threshold_goal(const std::string& text) {
  if (text == "f1") return ThresholdGoal{};
  if (!text.starts_with(kSensitivity)) return std::nullopt;
  const std::optional<double> value = parse_real(text.substr(sizeof kSensitivity - 1));
  if (!value || !(*value > 0 && *value <= 1)) return std::nullopt;
  return ThresholdGoal{value};
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
  double best_f1 = -1, best = 0;
  std::int64_t above = 0, true_above = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    above += groups[i].positives + groups[i].negatives;
    true_above += groups[i].positives;
    const double score = groups[i].score;
    const double below = i + 1 < groups.size() ? (score + groups[i + 1].score) / 2 : score - 1;
    if (goal.sensitivity) {
      if (share(true_above, positives) >= *goal.sensitivity) return below;
    } else if (const double f1 = share(2 * true_above, above + positives); f1 > best_f1) {
      best_f1 = f1;
      best = below;
    }
  }
  return best;
}

}  // namespace trainer::engine
