// Stages of a run, which freeze different layers: model.backbone.unfreeze.
// Reasons: lib/decisions/train.md#frozen-layers-are-a-function-of-the-step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"
#include "model/model.h"
#include "optim/optim.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// The config of a stage: with entry `stage - 1` of unfreeze applied; stage 0 is the config itself.
// Keeps the list of entries.
config::Config config_of_stage(config::Config config, std::size_t stage);

// The model of every stage; stage 0 is the config's own. A parameter counts its own updates from
// the step at which it was last unfrozen, where its slots start at zero; a parameter that stays
// trained keeps both. Throws ConfigError naming the entry that does not fit the model.
std::vector<graph::Graph> stage_models(const config::Config& config,
                                       const model::SampleSpec& sample,
                                       const std::vector<std::int64_t>& first_steps);

// A stage is a function of the step alone, so that a resumed run is in the same one.
class Stages {
 public:
  // Throws ConfigError when the entries are not in the order of their steps.
  Stages(const config::Config& config, const TrainingPlan& plan);
  std::size_t count() const { return first_steps_.size(); }
  // Update number `step`, from 0, is the first of stage `i` when it is first_steps()[i].
  const std::vector<std::int64_t>& first_steps() const { return first_steps_; }
  // The stage of update number `step`.
  std::size_t of(std::int64_t step) const;
  // The stage of a run after `steps` updates: the stage of the last update. A stage that begins
  // with the next update has not begun yet.
  std::size_t after(std::int64_t steps) const { return of(steps > 0 ? steps - 1 : 0); }

 private:
  std::vector<std::int64_t> first_steps_;
};

// The schedule's learning rate with the multipliers of the stages.
optim::LearningRate learning_rate_of(const config::Config& config, const TrainingPlan& plan);

}  // namespace trainer::train
