#include "engine/metrics/label_thresholds.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "base/text.h"

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
  std::vector<std::pair<float, bool>> samples;  // score, and whether the sample has the label
  std::int64_t positives = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(targets[i])) continue;
    if (std::isnan(scores[i])) return std::nullopt;
    samples.emplace_back(scores[i], targets[i] > 0.5f);
    positives += samples.back().second ? 1 : 0;
  }
  if (positives == 0) return std::nullopt;
  std::sort(samples.begin(), samples.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  double best_f1 = -1, best = 0;
  std::int64_t above = 0, true_above = 0;
  for (std::size_t next = 0; next < samples.size();) {
    const double score = static_cast<double>(samples[next].first);
    for (; next < samples.size() && static_cast<double>(samples[next].first) == score; ++next) {
      ++above;
      true_above += samples[next].second ? 1 : 0;
    }
    const double below =
        next < samples.size() ? (score + static_cast<double>(samples[next].first)) / 2 : score - 1;
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
