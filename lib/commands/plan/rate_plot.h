// The learning rate of every step as a picture: what `trainer plan --plot` writes.
#pragma once

#include <string>

#include "config/config.h"
#include "train/schedule/training_plan.h"

namespace trainer::commands {

// An SVG document of its own: the rate (linear, from 0) over epochs, warm-up, sustained and
// decaying phases shaded and named, and the rate written at the first and last step, where the
// highest begins and ends, and at the lowest. The curve is the element with id="rate": one point
// per step, of long trainings every n-th, at most 4000. Ticks carry their numbers, so that points
// can be read back.
std::string rate_plot(const config::Config& config, const train::TrainingPlan& steps);

}  // namespace trainer::commands
