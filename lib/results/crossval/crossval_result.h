// The result of a cross-validation: metrics of each fold, their means, and decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "engine/metrics/metrics.h"
#include "results/crossval/fold_decisions.h"
#include "results/run_files/checkpoint_choice.h"
#include "results/run_files/statistics.h"

namespace trainer::results {

inline constexpr const char* kCrossvalFile = "crossval.json";

struct FoldResult {
  std::int64_t fold = 0, step = 0;  // the step of the checkpoint
  engine::Metrics metrics;          // metrics of the samples of the fold
};

// A metric over the folds.
struct FoldMetric {
  std::string name;
  std::vector<double> values;  // indexed by fold; NaN where a fold has none
  // Student's interval over the folds that have it. NaN if the value is a mean over classes, and
  // the folds have samples of different classes.
  Estimate estimate;
  std::optional<double> all;  // the value for all samples' predictions together
  // `all` has Wilson's interval if it is an accuracy, and DeLong's if it is the AUC of two classes
  // or of a label.
  std::optional<engine::Interval> all_interval;
};

// The metrics of one of several labels. A fold in which no sample or all samples have the label has
// no AUC.
struct LabelMetrics {
  FoldMetric auc, average_precision;
};

struct CrossvalResult {
  std::string name;
  CheckpointChoice checkpoint = CheckpointChoice::kLast;  // the checkpoint of each run
  std::vector<std::string> classes;
  std::vector<FoldResult> folds;
  engine::Metrics all;  // metrics of all samples' predictions together
  std::vector<FoldMetric> metrics;
  std::vector<LabelMetrics> labels;  // one per label, if samples have several labels
  FoldDecisions decisions;
};

// Returns the checkpoint with which the predictions in the folder were made. Throws DataError if
// its crossval.json is damaged.
CheckpointChoice read_crossval_checkpoint(const Path& folder);

// Prints a row per metric: its mean, interval, the value of all predictions, and those of folds;
// then the decisions, without the reliability diagram if `brief`.
void print_crossval(const CrossvalResult& result, const Path& folder, bool brief,
                    std::ostream& out);
// Returns {"event":"crossval",...}, one line.
std::string crossval_json(const CrossvalResult& result);

}  // namespace trainer::results
