// Metrics of a split as text and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/split.h"
#include "engine/metrics/metrics.h"
#include "results/decisions/label_thresholds.h"
#include "results/document/document.h"
#include "results/run_files/checkpoint_choice.h"

namespace trainer::results {

struct EvaluationReport {
  std::string run;  // the user's name for it
  std::int64_t step = 0;
  CheckpointChoice checkpoint = CheckpointChoice::kDefault;
  Split split = Split::kTest;
  std::vector<std::string> classes;
  engine::Metrics metrics;
  LabelThresholds thresholds = {};  // set if samples have several labels
};

inline constexpr std::int64_t kMaxPrintedMatrix =
    20;  // classes whose confusion matrix fits a screen

ConfusionMatrix make_matrix(const engine::Confusion& confusion,
                            const std::vector<std::string>& classes);

// Returns loss and, where samples have classes, accuracy with its interval, and unless `brief`:
// precision, recall and F1 of every class and the confusion matrix, of which only the most frequent
// confusions are shown when there are many classes. Of several labels per sample, returns their
// metrics, and unless `brief` a table of the labels.
Document describe_evaluation(const EvaluationReport& report, bool brief);

}  // namespace trainer::results
