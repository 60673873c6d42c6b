// Compares the predictions of runs for the same samples, and tests whether one of two is better.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/files/files.h"

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

}  // namespace trainer::commands
