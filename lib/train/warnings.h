// What a config may well not mean, though it can be run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"
#include "model/model.h"
#include "train/steps/step_plan.h"

namespace trainer::train {

// One line each, with its place in the config. `sample`: what a model can be built for; `steps`: of
// the run. Less is found without them.
// Throws ConfigError for a model that cannot be.
std::vector<std::string> config_warnings(const config::Config& config,
                                         const std::optional<model::SampleSpec>& sample,
                                         const std::optional<StepPlan>& steps);

}  // namespace trainer::train
