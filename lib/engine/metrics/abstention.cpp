#include "engine/metrics/abstention.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/metrics/binary_scores.h"

namespace trainer::engine {

std::optional<AbstentionPoint> find_abstention_point(std::span<const TopPrediction> predictions,
                                                     double error) {
  std::vector<TopPrediction> sorted(predictions.begin(), predictions.end());
  std::ranges::sort(sorted, std::greater<>(), &TopPrediction::confidence);
  std::optional<AbstentionPoint> best;
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    wrong += sorted[i].is_correct ? 0 : 1;
    const bool is_last = i + 1 == sorted.size();
    // Samples of equal confidence are answered together.
    if (!is_last && sorted[i + 1].confidence == sorted[i].confidence) continue;
    const auto answered = static_cast<std::int64_t>(i) + 1;
    if (static_cast<double>(wrong) > error * static_cast<double>(answered)) continue;
    const double between =
        is_last ? 0 : threshold_between(sorted[i + 1].confidence, sorted[i].confidence);
    best = AbstentionPoint{between, answered, wrong};
  }
  return best;
}

}  // namespace trainer::engine
