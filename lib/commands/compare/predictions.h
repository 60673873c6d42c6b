// The predictions of runs for the same samples, made where none are stored, and a test whether one
// of two runs is better.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/files/files.h"
#include "inference/open_model/open_model.h"
#include "results/run_files/run_files.h"

namespace trainer::commands {

struct StoredPrediction {
  std::string predicted, label;
  bool is_right() const { return predicted == label; }
};
// The keys are file and index.
using Predictions = std::map<std::pair<std::string, std::int64_t>, StoredPrediction>;

// <run>/predictions.jsonl, lines of `trainer predict RUN --json`; nothing when it is absent.
// Throws DataError when a line is not a prediction of a labelled sample.
std::optional<Predictions> read_predictions(const Path& run);

struct PairedResult {
  std::int64_t both_right = 0, only_first = 0, only_second = 0, both_wrong = 0;
  double probability = 1;  // the p-value of McNemar's exact test
};
// Returns nothing unless both predict the same samples with the same labels.
std::optional<PairedResult> compare_predictions(const Predictions& first,
                                                const Predictions& second);

struct RunPredictions {
  std::optional<Predictions> predictions;
  std::string reason;  // the reason why there are none
};

// Returns those of <run>/predictions.jsonl, or else predicts the split of open_split_or_default()
// by the checkpoint that `evaluate` takes; the likeliest class counts. The last checkpoint, if that
// is asked for, always predicts: stored predictions may be of the best one. There are none if this
// takes longer than `seconds`, the images have no class each, or the run cannot be opened. Throws
// DataError for a damaged predictions.jsonl.
RunPredictions predict_run(const Path& run, results::CheckpointChoice checkpoint, double seconds,
                           const inference::OpenOptions& options);

}  // namespace trainer::commands
