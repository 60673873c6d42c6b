// The learning rate of every step as a picture: what `trainer plan --plot` writes.
#pragma once

#include <string>

#include "config/config.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {

// Returns an SVG document: a line chart of the rate over epochs, with warm-up, sustained and
// decaying phases shaded and named, and the rate written at the first and last step, where the
// highest begins and ends, and at the lowest. The curve has one point per step, of long trainings
// every n-th, at most 400.
std::string rate_plot(const config::Config& config, const train::TrainingPlan& steps);

}  // namespace trainer::commands
