// Warnings about configs that can run but probably do not mean what they say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"
#include "model/model.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// One line for each warning, with its place in the config. `sample` describes the data set, `steps`
// the run; without them fewer warnings can be found. Throws ConfigError for a model that cannot be
// built.
std::vector<std::string> config_warnings(const config::Config& config,
                                         const std::optional<model::SampleSpec>& sample,
                                         const std::optional<TrainingPlan>& steps);

}  // namespace trainer::train
