// Cross-validation: a run per fold of the training samples, each in a process of its own like the
// points of a sweep, and the predictions of every run for the fold that it has not trained on.
//
//   <crossval>/sweep.json, <crossval>/fold=1/ ...   as of a sweep (sweep.h)
//   <crossval>/out_of_fold.csv   a row per training sample
//   <crossval>/crossval.json     the metrics of the folds, their means and intervals, and what
//                                fold_decisions.h computes from all predictions
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/notice.h"
#include "commands/crossval/fold_decisions.h"
#include "commands/crossval/out_of_fold.h"
#include "commands/open_model/open_model.h"
#include "commands/run_files/statistics.h"
#include "commands/sweep/sweep.h"
#include "engine/metrics/metrics.h"

namespace trainer::commands {

inline constexpr std::int64_t kDefaultFolds = 5;
inline constexpr const char* kCrossvalFile = "crossval.json";

// Returns a sweep over data.fold. `folds` replaces data.folds, which is kDefaultFolds if neither is
// given. `folder`: runs/<name>_crossval when empty. Throws ConfigError, also for `decisions` that
// the model cannot follow.
SweepPlan plan_crossval(const std::string& config, std::optional<std::int64_t> folds,
                        const std::vector<config::Override>& overrides,
                        const config::Environment& environment, const Path& folder,
                        const DecisionOptions& decisions);

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

// Predicts each fold by its run, and writes out_of_fold.csv and crossval.json. All points must have
// finished. kLast is the state at the end of training; kBest the checkpoint that run.best chose by
// this fold, with which the metrics are too good. Throws DataError, also if the data is not what it
// was when a run was trained.
CrossvalResult collect_folds(const SweepPlan& plan, CheckpointChoice checkpoint,
                             const DecisionOptions& decisions,
                             const std::function<void(const Notice&)>& warn);

// Returns the checkpoint with which the predictions in the folder were made. Throws DataError if
// its crossval.json is damaged.
CheckpointChoice read_crossval_checkpoint(const Path& folder);

// Prints a row per metric: its mean, interval, the value of all predictions, and those of folds;
// then the decisions, without the reliability diagram if `brief`.
void print_crossval(const CrossvalResult& result, const Path& folder, bool brief,
                    std::ostream& out);
// Returns {"event":"crossval",...}, one line.
std::string crossval_json(const CrossvalResult& result);

}  // namespace trainer::commands
