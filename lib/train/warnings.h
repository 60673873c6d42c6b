// Warns about configs that can run but are probably a mistake.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/build_model.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// Returns one line for each warning, with its location in the config. `sample` describes the data
// set and `steps` the run; without them fewer problems are found. Throws ConfigError for a model
// that cannot be built.
std::vector<std::string> config_warnings(const config::Config& config,
                                         const std::optional<model::SampleSpec>& sample,
                                         const std::optional<TrainingPlan>& steps);

}  // namespace trainer::train
