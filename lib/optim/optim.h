// Config -> update rule, and learning-rate schedules as pure functions of progress.
#pragma once

#include <cstdint>
#include <functional>

#include "config/sections/duration.h"
#include "config/sections/optimizer.h"
#include "config/sections/schedule.h"
#include "graph/graph.h"

namespace trainer::optim {

struct UpdateSpec {
  graph::Update update;      // l2 and learning_rate_multiplier are filled in for each parameter
  double learning_rate = 0;  // base, before the schedule
};
UpdateSpec update_spec(const config::Optimizer& optimizer);

// Returns the model with the learning-rate multipliers of its layers, layer_decay included. Throws
// ConfigError if a pattern matches no layer with parameters.
graph::Graph scale_learning_rates(graph::Graph model, const config::Optimizer& optimizer);

// Returns the model without weight decay of the parameters that the optimizer excludes from it.
// Throws ConfigError if a pattern matches no parameter.
graph::Graph exclude_from_weight_decay(graph::Graph model, const config::Optimizer& optimizer);

// Applies scale_learning_rates() and exclude_from_weight_decay().
graph::Graph apply_parameter_options(graph::Graph model, const config::Optimizer& optimizer);

// The length of a training, as far as schedules depend on it.
struct Length {
  double steps_per_epoch = 1;  // optimizer updates
  std::int64_t total_steps = 1;
  int replicas = 1;
};
// Converts a duration to steps. Throws std::logic_error for seconds, which the config reader
// rejects for schedules.
double to_steps(const config::Duration& duration, const Length& length);

// Returns the learning rate of update number `step` (from 0). A pure function of the step, which
// may be called in any order.
using LearningRate = std::function<double(std::int64_t step)>;
LearningRate learning_rate(const config::Schedule& schedule, double base, const Length& length);

}  // namespace trainer::optim
