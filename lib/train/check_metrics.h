// Checks the metrics that a config names against the labels of the data.
#pragma once

#include "base/notice.h"
#include "config/config.h"
#include "data/open.h"

namespace trainer::train {

// With several labels per image, replaces the default of run.best, validation/accuracy, by
// validation/loss and returns a note on it, also if the config gives this default explicitly.
// Returns an empty notice otherwise.
Notice resolve_best(config::Config& config, const data::Datasets& data);

// Throws ConfigError if run.best, train.early_stop, train.stop_at or the schedule names a metric
// that the training data does not have: f1_weighted of several labels, or subset_accuracy of
// classes. The default of run.best is right for both.
void check_metrics(const config::Config& config, const data::Datasets& data);

// Returns the part of a message on training data without several labels per image.
const char* describe_label_kind(const data::Datasets& data);

}  // namespace trainer::train
