// The stages of a run, which freeze different layers: model.backbone.unfreeze.
// Reasons: lib/decisions/train.md#a-run-is-a-function-of-the-step.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"
#include "model/build_model.h"
#include "optim/optim.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// Returns the config of a stage, which applies entry `stage - 1` of unfreeze; stage 0 is the config
// itself. Keeps the list of entries, which must have at least `stage` ones.
config::Config stage_config(config::Config config, std::size_t stage);

// Returns the model of every stage; that of stage 0 is the config's own. A parameter counts its
// updates from the step at which it was last unfrozen, where its slots start at zero; a parameter
// that stays trained keeps both. Throws ConfigError naming the entry that does not fit the model.
std::vector<graph::Graph> stage_models(const config::Config& config,
                                       const model::SampleSpec& sample,
                                       const std::vector<std::int64_t>& first_steps);

// Finds the stage of a step. It depends on the step alone, so that a resumed run is in the same
// one.
class Stages {
 public:
  // Throws ConfigError if the entries are not in the order of their steps.
  Stages(const config::Config& config, const TrainingPlan& plan);
  std::size_t count() const { return first_steps_.size(); }
  // first_steps()[i] is the number, from 0, of the first update of stage `i`.
  const std::vector<std::int64_t>& first_steps() const { return first_steps_; }
  // Returns the stage of update number `step`.
  std::size_t at(std::int64_t step) const;
  // Returns the stage of a run after `steps` updates, which is the stage of the last update. A
  // stage that begins with the next update has not begun yet.
  std::size_t after(std::int64_t steps) const { return at(steps > 0 ? steps - 1 : 0); }

 private:
  std::vector<std::int64_t> first_steps_;
};

// Returns the schedule's learning rate with the multipliers of the stages.
optim::LearningRate staged_learning_rate(const config::Config& config, const TrainingPlan& plan);

}  // namespace trainer::train
