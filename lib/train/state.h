// The metadata of a checkpoint: the state of a run, as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/data.h"
#include "train/loop/changes.h"
#include "train/schedule/plateau.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// The state of a run. Sample order, augmentation, dropout and schedule are functions of the seed
// and the step, so that they need no state but the step.
struct RunState {
  std::int64_t step = 0;       // updates done
  std::size_t stage = 0;       // of model.backbone.unfreeze, the one of the last update
  std::optional<double> best;  // value of run.best so far
  std::int64_t best_step = 0;
  std::optional<backend::LossScaleState> loss_scale;  // where it is dynamic
  std::optional<PlateauState> plateau;                // of schedule.reduce_on_plateau
  std::int64_t restored_step = 0;            // whose parameters restore_best has brought back
  bool evaluation_due = false;               // a signal cut the evaluation of this step off
  bool stopped = false;                      // by a hook: early stop
  std::map<std::string, std::string> hooks;  // by hook name
};

// Adds what identifies the run: the settings that a resume must find again, the fingerprint of the
// training data, the classes, shape and type of the images, and the config.
checkpoint::Metadata to_metadata(const RunState& state, const config::Config& config,
                                 const data::Datasets& data, const TrainingPlan& plan);

// Checks that the checkpoint belongs to this config and data. Throws DataError naming each
// difference after which the run would not go on: seed, batch size, accumulation, shuffling,
// training data, classes, and what changes_since() refuses; `advice` is what else helps.
RunState from_metadata(const checkpoint::Metadata& metadata, const config::Config& config,
                       const data::Datasets& data, const TrainingPlan& plan,
                       const std::string& path, const std::string& advice = "");

// The differences between the config and the one in the checkpoint.
Changes changes_since(const checkpoint::Metadata& metadata, const config::Config& config);

// Return the class names in a checkpoint, with control characters spelled out, and the number of
// updates before it. `path` is used in messages.
std::vector<std::string> classes_of(const checkpoint::Metadata& metadata);
std::int64_t step_of(const checkpoint::Metadata& metadata, const std::string& path);
// The stage that the tensors of the checkpoint are of.
std::size_t stage_of(const checkpoint::Metadata& metadata, const std::string& path);
// How far the run goes, as its newest checkpoint says.
struct RunLength {
  std::int64_t total_steps = 0, steps_per_epoch = 1;
  bool stopped = false;  // early
};
RunLength length_of(const checkpoint::Metadata& metadata, const std::string& path);
// Shape, type and labels of the samples of the run; none when the checkpoint has no such entry.
std::optional<Shape> image_shape_of(const checkpoint::Metadata& metadata);
std::optional<DType> image_type_of(const checkpoint::Metadata& metadata);
std::optional<bool> label_is_index_of(const checkpoint::Metadata& metadata);

}  // namespace trainer::train
