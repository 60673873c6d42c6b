// Cross-validation: a run per fold of the training samples, each in a process of its own like the
// points of a sweep, and the predictions of every run for the fold that it has not trained on.
//
//   <crossval>/sweep.json, <crossval>/fold=1/ ...   as of a sweep (sweep.h)
//   <crossval>/out_of_fold.csv   a row per training sample
//   <crossval>/crossval.json     the metrics of the folds, their means and intervals, and what
//                                fold_decisions.h computes from all predictions
#pragma once

#include <cstdint>
#include <optional>

#include "commands/sweep/sweep.h"
#include "results/decisions/decision_options.h"

namespace trainer::commands {

inline constexpr std::int64_t kDefaultFolds = 5;

struct CrossvalArguments : PointsArguments {
  std::optional<std::int64_t> folds;  // data.folds, or else kDefaultFolds, when left out
  bool best = false;
  results::DecisionOptions decisions;
};
// Returns the code of find_exit_code().
int execute(const CrossvalArguments& arguments, const Context& context);

}  // namespace trainer::commands
