// The options of `evaluate` and `crossval` for results beside the metrics.
#pragma once

#include <optional>
#include <string>

namespace trainer::results {

struct DecisionOptions {
  bool calibrate = false;         // measures and corrects the probabilities
  bool curves = false;            // ROC and precision-recall
  std::string operating_point;    // a criterion; none when empty
  std::optional<double> abstain;  // the share of wrong predictions that is allowed
  std::string positive_class;  // used by curves and operating point; the second of two when empty
};

}  // namespace trainer::results
