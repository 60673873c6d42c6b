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
#include "commands/crossval/out_of_fold.h"
#include "commands/sweep/sweep.h"
#include "engine/metrics/metrics.h"
#include "inference/open_model/open_model.h"
#include "results/crossval/fold_decisions.h"
#include "results/decisions/decision_options.h"
#include "results/run_files/statistics.h"

namespace trainer::commands {

inline constexpr std::int64_t kDefaultFolds = 5;

// Returns a sweep over data.fold. `folds` replaces data.folds, which is kDefaultFolds if neither is
// given. `folder`: runs/<name>_crossval when empty. Throws ConfigError, also for `decisions` that
// the model cannot follow.
results::SweepPlan plan_crossval(const std::string& config, std::optional<std::int64_t> folds,
                                 const std::vector<config::Override>& overrides,
                                 const config::Environment& environment, const Path& folder,
                                 const results::DecisionOptions& decisions);

// Predicts each fold by its run, and writes out_of_fold.csv and crossval.json. All points must have
// finished. kLast is the state at the end of training; kBest the checkpoint that run.best chose by
// this fold, with which the metrics are too good. Throws DataError, also if the data is not what it
// was when a run was trained.
results::CrossvalResult collect_folds(const results::SweepPlan& plan,
                                      results::CheckpointChoice checkpoint,
                                      const results::DecisionOptions& decisions, const Warn& warn);

struct CrossvalArguments : PointsArguments {
  std::optional<std::int64_t> folds;
  bool best = false;
  results::DecisionOptions decisions;
};
// Returns the code of find_exit_code().
int execute(const CrossvalArguments& arguments, const Context& context);

}  // namespace trainer::commands
