// The thresholds of a run's labels: found by `evaluate --thresholds`, kept in the run folder, and
// used by `evaluate`, `predict` and `export`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "commands/open_model/open_model.h"
#include "engine/metrics/label_thresholds.h"
#include "engine/metrics/multi_label.h"

namespace trainer::commands {

struct LabelThresholds {
  std::string goal = {};               // "f1"; "" for those of a probability of 0.5
  std::int64_t step = 0;               // of the checkpoint for which they were found
  std::vector<double> logits = {};     // by label; a label is predicted above its number
  std::vector<std::string> kept = {};  // labels without a positive, which keep 0.5
};

// Returns the thresholds for the samples of `scores`, which must have all of them.
LabelThresholds find_thresholds(const OpenedModel& opened,
                                const engine::MultiLabelAccumulator& scores,
                                const engine::ThresholdGoal& goal);

// Writes thresholds.json into the run folder. Throws ConfigError if the model is not that of a run
// folder.
void write_thresholds(const OpenedModel& opened, const LabelThresholds& thresholds);

// Returns the thresholds in the run folder, or for a model without any those of a probability of
// 0.5. Warns if they were found for another checkpoint. Throws DataError for a damaged file.
LabelThresholds read_thresholds(const OpenedModel& opened);

// Adds the logits of read_thresholds() to the metadata of an export, as a JSON list "thresholds".
void add_thresholds(const OpenedModel& opened,
                    std::vector<std::pair<std::string, std::string>>& metadata);

}  // namespace trainer::commands
