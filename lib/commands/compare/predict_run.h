// Predictions of a run for comparisons, made where none are stored.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/notice.h"
#include "commands/compare/predictions.h"
#include "config/config.h"
#include "results/run_files/run_files.h"

namespace trainer::commands {

struct RunPredictions {
  std::optional<Predictions> predictions;
  std::string reason;  // the reason why there are none
};

// Returns those of <run>/predictions.jsonl, or else predicts the split of open_split_or_default()
// by the checkpoint that `evaluate` takes; the likeliest class counts. The last checkpoint, if that
// is asked for, always predicts: stored predictions may be of the best one. There are none if this
// takes longer than `seconds`, the images have no class each, or the run cannot be opened. Throws
// DataError for a damaged predictions.jsonl.
RunPredictions predict_run(const Path& run, results::ScoredCheckpoint checkpoint, double seconds,
                           const config::Environment& environment,
                           const std::function<void(const Notice&)>& warn);

}  // namespace trainer::commands
