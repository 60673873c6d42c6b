#include "engine/metrics/operating_point.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/numbers/statistics.h"
#include "base/text.h"

namespace trainer::engine {
namespace {

// Counts that reach a share by less than this are taken to reach it: 0.95 of 20 is 19.
constexpr double kCountRounding = 1e-9;

std::int64_t least_count(double share, std::int64_t of) {
  return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(of) - kCountRounding));
}

double sum_costs(const OperatingCriterion& criterion, const OperatingCounts& counts) {
  return criterion.false_positive_cost * static_cast<double>(counts.false_positives) +
         criterion.false_negative_cost * static_cast<double>(counts.false_negatives);
}

// Compares the counts that two thresholds give; returns true if `one` is better than `best`.
bool is_better(const OperatingCriterion& criterion, const OperatingCounts& one,
               const OperatingCounts& best) {
  switch (criterion.kind) {
    case OperatingCriterion::Kind::kSensitivity:
      return one.true_negatives > best.true_negatives;
    case OperatingCriterion::Kind::kSpecificity:
      return one.true_positives > best.true_positives;
    case OperatingCriterion::Kind::kCost:
      break;
  }
  return sum_costs(criterion, one) < sum_costs(criterion, best);
}

bool is_allowed(const OperatingCriterion& criterion, const OperatingCounts& counts) {
  switch (criterion.kind) {
    case OperatingCriterion::Kind::kSensitivity:
      return counts.true_positives >= least_count(criterion.share, counts.positives());
    case OperatingCriterion::Kind::kSpecificity:
      return counts.true_negatives >= least_count(criterion.share, counts.negatives());
    case OperatingCriterion::Kind::kCost:
      break;
  }
  return true;
}

}  // namespace

std::optional<OperatingCriterion> parse_operating_criterion(std::string_view text) {
  using Kind = OperatingCriterion::Kind;
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(0, equals);
  const std::string value(text.substr(equals + 1));
  if (name == "cost") {
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) return std::nullopt;
    const auto false_positive = parse_real(value.substr(0, colon));
    const auto false_negative = parse_real(value.substr(colon + 1));
    const auto is_cost = [](const std::optional<double>& cost) {
      return cost && std::isfinite(*cost) && *cost > 0;
    };
    if (!is_cost(false_positive) || !is_cost(false_negative)) return std::nullopt;
    return OperatingCriterion{Kind::kCost, 0, *false_positive, *false_negative};
  }
  if (name != "sensitivity" && name != "specificity") return std::nullopt;
  const std::optional<double> share = parse_real(value);
  if (!share || !(*share > 0 && *share <= 1)) return std::nullopt;
  return OperatingCriterion{name == "sensitivity" ? Kind::kSensitivity : Kind::kSpecificity, *share,
                            0, 0};
}

std::string to_string(const OperatingCriterion& criterion) {
  switch (criterion.kind) {
    case OperatingCriterion::Kind::kSensitivity:
      return concat("sensitivity=", criterion.share);
    case OperatingCriterion::Kind::kSpecificity:
      return concat("specificity=", criterion.share);
    case OperatingCriterion::Kind::kCost:
      break;
  }
  return concat("cost=", criterion.false_positive_cost, ":", criterion.false_negative_cost);
}

double OperatingCounts::sensitivity() const { return share(true_positives, positives()); }
double OperatingCounts::specificity() const { return share(true_negatives, negatives()); }
Interval OperatingCounts::sensitivity_interval() const {
  return wilson(true_positives, positives());
}
Interval OperatingCounts::specificity_interval() const {
  return wilson(true_negatives, negatives());
}

double mean_cost(const OperatingCriterion& criterion, const OperatingCounts& counts) {
  const std::int64_t samples = counts.positives() + counts.negatives();
  return samples == 0 ? 0 : sum_costs(criterion, counts) / static_cast<double>(samples);
}

OperatingCounts count_at_threshold(const BinaryScores& scores, double threshold) {
  OperatingCounts counts;
  for (std::size_t i = 0; i < scores.scores.size(); ++i) {
    const bool called = scores.scores[i] >= threshold;
    if (scores.is_positive[i]) {
      ++(called ? counts.true_positives : counts.false_negatives);
    } else {
      ++(called ? counts.false_positives : counts.true_negatives);
    }
  }
  return counts;
}

double find_operating_threshold(const BinaryScores& scores, const OperatingCriterion& criterion) {
  const std::vector<ScoreGroup> groups = group_by_score(scores);
  OperatingCounts counts{0, scores.positives(), scores.negatives(), 0};
  double threshold = std::numeric_limits<double>::infinity();
  std::optional<OperatingCounts> best;
  if (is_allowed(criterion, counts)) best = counts;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    counts.true_positives += groups[i].positives;
    counts.false_negatives -= groups[i].positives;
    counts.false_positives += groups[i].negatives;
    counts.true_negatives -= groups[i].negatives;
    if (!is_allowed(criterion, counts)) continue;
    if (best && !is_better(criterion, counts, *best)) continue;
    best = counts;
    threshold = i + 1 < groups.size() ? threshold_between(groups[i + 1].score, groups[i].score)
                                      : groups[i].score;
  }
  return threshold;
}

std::int32_t find_least_cost_class(std::span<const double> probabilities, const CostMatrix& costs) {
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t decided = 0; decided < costs.classes; ++decided) {
    double expected = 0;
    for (std::size_t actual = 0; actual < costs.classes; ++actual) {
      expected += probabilities[actual] * costs.at(actual, decided);
    }
    if (!(expected < least)) continue;
    least = expected;
    best = decided;
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace trainer::engine
