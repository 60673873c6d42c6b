// Checks the metrics that a config names against the labels of the data.
#pragma once

#include "config/config.h"
#include "data/open.h"

namespace trainer::train {

// Replaces the default of run.best, the accuracy, by validation/loss for several labels per image.
void resolve_best(config::Config& config, const data::Datasets& data);

// Throws ConfigError if run.best, train.early_stop, train.stop_at or the schedule names a metric
// that the training data does not have: f1_weighted of several labels, or subset_accuracy of
// classes. The default of run.best is right for both.
void check_metrics(const config::Config& config, const data::Datasets& data);

}  // namespace trainer::train
