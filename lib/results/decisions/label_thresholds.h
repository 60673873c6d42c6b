// The thresholds above which the labels of an image are predicted.
#pragma once

#include <string>
#include <vector>

#include "base/split.h"
#include "results/document/document.h"
#include "results/field.h"

namespace trainer::results {

struct LabelThresholds {
  std::string goal = {};               // "f1"; "" for those of a probability of 0.5
  std::vector<double> logits = {};     // one per label; a label is predicted above its number
  std::vector<std::string> kept = {};  // labels without a positive, which keep 0.5
};

// The thresholds of a run as a file.
struct StoredThresholds {
  struct Label {
    std::string label;
    double logit = 0;
  };
  std::string goal;
  Split split = Split::kValidation;  // the split on which they were found
  std::vector<Label> labels;
};
void fields(FieldVisitor& v, StoredThresholds::Label& label);
void fields(FieldVisitor& v, StoredThresholds& thresholds);

// Returns the goal and a table of the labels. `ending` ends the first line.
Document show_thresholds(const StoredThresholds& thresholds, const std::string& ending);

}  // namespace trainer::results
