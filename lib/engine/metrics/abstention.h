// The confidence below which a model abstains, so that its other predictions keep an error.
#pragma once

#include <optional>
#include <span>

#include "engine/metrics/calibration.h"

namespace trainer::engine {

struct AbstentionPoint {
  double confidence = 0;      // predictions with at least this confidence are given
  std::int64_t answered = 0;  // the number of samples that have it
  std::int64_t wrong = 0;     // the number of answered samples whose prediction is wrong
};
// Returns the point that answers most samples with a share of at most `error` wrong ones. The
// confidence lies in the middle between those of two samples, or is 0 if all are answered. Nothing
// if no such point answers a sample.
std::optional<AbstentionPoint> find_abstention_point(std::span<const TopPrediction> predictions,
                                                     double error);

}  // namespace trainer::engine
