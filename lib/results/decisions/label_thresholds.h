// The thresholds above which the labels of an image are predicted.
#pragma once

#include <string>
#include <vector>

namespace trainer::results {

struct LabelThresholds {
  std::string goal = {};               // "f1"; "" for those of a probability of 0.5
  std::vector<double> logits = {};     // one per label; a label is predicted above its number
  std::vector<std::string> kept = {};  // labels without a positive, which keep 0.5
};

}  // namespace trainer::results
