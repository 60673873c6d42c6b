// The thresholds of a run's labels: found by `evaluate --thresholds`, kept in the run folder, and
// used by `evaluate`, `predict` and `export`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/evaluate.h"
#include "engine/metrics/label_thresholds.h"
#include "engine/metrics/multi_label.h"
#include "inference/open_model/open_model.h"
#include "results/decisions/label_thresholds.h"

namespace trainer::inference {

// Returns the goal that the text of --thresholds names. Throws ConfigError if it names none, if the
// model does not give an image several labels or is not a run, and for another split than the
// validation split, from whose samples thresholds are found.
engine::ThresholdGoal parse_thresholds(const std::string& text, const OpenedModel& opened,
                                       const std::string& split);

// Evaluates the data set with the thresholds of the run, or with those that it finds for `goal` and
// writes to the run. Sets `thresholds` to those that it used.
engine::Metrics evaluate_labels(engine::Engine& engine, const data::Dataset& dataset,
                                const OpenedModel& opened,
                                const std::optional<engine::ThresholdGoal>& goal,
                                engine::EvaluateOptions options,
                                results::LabelThresholds& thresholds);

// Returns the thresholds of the run, or for a model without any those of a probability of 0.5. If
// the stored ones belong to other parameters or to other use of mirror images, warns and returns
// those of 0.5. Throws DataError for a damaged file.
results::LabelThresholds read_thresholds(const OpenedModel& opened, bool flip);

}  // namespace trainer::inference
