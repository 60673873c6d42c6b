// The result of a cross-validation: metrics of each fold, their means, and decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "engine/metrics/multi_label.h"
#include "results/crossval/fold_decisions.h"
#include "results/metrics.h"
#include "results/run_files/checkpoint_choice.h"
#include "results/run_files/statistics.h"

namespace trainer::results {

inline constexpr const char* kCrossvalFile = "crossval.json";

// A metric over the folds.
struct FoldMetric {
  // Student's interval over the folds that have it. NaN if the value is a mean over classes, and
  // the folds have samples of different classes.
  Estimate estimate;
  std::optional<double> all;   // the value for all samples' predictions together
  std::vector<double> values;  // indexed by fold; NaN where a fold has none
  // `all` has Wilson's interval if it is an accuracy, and DeLong's if it is the AUC of two classes
  // or of a label.
  std::optional<double> all_low, all_high;
};
void fields(FieldVisitor& v, FoldMetric& metric);

// The metrics of one of several labels. A fold in which no sample or all samples have the label has
// no AUC.
struct LabelMetrics {
  std::string label;
  engine::LabelResult counts;  // those of all samples
  FoldMetric auc, average_precision;
};
void fields(FieldVisitor& v, LabelMetrics& label);

struct FoldRun {
  std::int64_t fold = 0, step = 0;  // the step of the checkpoint
  std::int64_t count = 0;           // samples of the fold
};
void fields(FieldVisitor& v, FoldRun& run);

struct CrossvalResult {
  std::string name;
  CheckpointChoice checkpoint = CheckpointChoice::kLast;  // the checkpoint of each run
  std::int64_t count = 0;                                 // samples
  std::vector<std::pair<std::string, FoldMetric>> metrics;
  std::vector<FoldRun> folds;
  std::vector<std::string> classes;
  ConfusionCounts confusion;         // that of all samples' predictions, if they have classes
  std::vector<LabelMetrics> labels;  // one per label, if samples have several labels
  FoldDecisions decisions;
};
void fields(FieldVisitor& v, CrossvalResult& result);

// Returns crossval.json of the folder. Throws DataError if there is none, or a damaged one.
CrossvalResult read_crossval(const Path& folder);

// Returns a row per metric: its mean, interval, the value of all predictions, and those of folds
// unless there are more than `max_folds`; then a row per label.
Document show_fold_metrics(const CrossvalResult& result, std::size_t max_folds);
// Prints the metrics, the decisions, without the reliability diagram if `brief`, and the names of
// the files in the folder.
void print_crossval(const CrossvalResult& result, const Path& folder, bool brief,
                    std::ostream& out);

}  // namespace trainer::results
