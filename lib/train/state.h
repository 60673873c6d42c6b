// Writes and reads the metadata of a checkpoint: the state of a run as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/files/files.h"
#include "checkpoint/tensor_file.h"
#include "config/config.h"
#include "data/open.h"
#include "train/schedule/plateau.h"
#include "train/schedule/training_plan.h"

namespace trainer::train {

// The state of a run. Sample order, augmentation, dropout and schedule are functions of the seed
// and the step, so that they need no state but the step.
struct RunState {
  std::int64_t step = 0;           // updates done
  std::int64_t recorded_step = 0;  // the step of the last on_step() of hooks; `step` or less
  std::size_t stage = 0;           // the stage of the last update (model.backbone.unfreeze)
  std::optional<double> best;      // value of run.best so far
  std::int64_t best_step = 0;
  std::optional<backend::LossScaleState> loss_scale;  // set if the loss scale is dynamic
  std::optional<PlateauState> plateau;                // used with schedule.reduce_on_plateau
  std::int64_t restored_step = 0;            // the step whose parameters restore_best has restored
  bool evaluation_due = false;               // a signal cancelled the evaluation of this step
  bool stopped = false;                      // a hook has stopped the run early
  std::map<std::string, std::string> hooks;  // keyed by hook name
  // The fingerprint of the training data at the first start, before files were damaged or removed
  // during the run; "" if it is not known. A resume accepts this one and that of the last save.
  std::string first_data;
};

// Converts the state to metadata and adds the identity of the run: the settings that a resume must
// find unchanged, the fingerprint of the training data, the classes, shape and type of the images,
// and the config.
checkpoint::Metadata to_metadata(const RunState& state, const config::Config& config,
                                 const data::Datasets& data, const TrainingPlan& plan);

// Reads the state. Throws DataError naming each difference from this config and data with which the
// run cannot continue: seed, batch size, accumulation, shuffling, training data, classes, and the
// errors of changes_since(). With the folder of the run, the message ends with what else can be
// done. Values of a metric that run.best, train.early_stop, train.stop_at or the schedule no longer
// names are left out.
RunState from_metadata(const checkpoint::Metadata& metadata, const config::Config& config,
                       const data::Datasets& data, const TrainingPlan& plan,
                       const std::string& path, const Path& run = {});

// The differences between a config and the one of a checkpoint as messages.
struct Changes {
  std::vector<std::string> errors;    // a run with these cannot be resumed
  std::vector<std::string> warnings;  // these can change the result; each is "KEY was A, is B"
};
// Returns the differences between the config and the one in the checkpoint, by
// config::resume_changes().
Changes changes_since(const checkpoint::Metadata& metadata, const config::Config& config);

// Returns the number of updates before a checkpoint. `path` names it in messages.
std::int64_t read_step(const checkpoint::Metadata& metadata, const std::string& path);
// Returns the stage to which the tensors of the checkpoint belong.
std::size_t read_stage(const checkpoint::Metadata& metadata, const std::string& path);
// The length of a run, as its newest checkpoint has it.
struct RunLength {
  std::int64_t total_steps = 0, steps_per_epoch = 1;
  bool stopped = false;  // true if the run was stopped early
};
RunLength read_length(const checkpoint::Metadata& metadata, const std::string& path);
// These return the shape, type and labels of the samples of the run; nothing if the checkpoint has
// no such entry. Throw DataError for an entry of another form.
std::optional<Shape> read_image_shape(const checkpoint::Metadata& metadata,
                                      const std::string& path);
std::optional<DType> read_image_type(const checkpoint::Metadata& metadata, const std::string& path);
std::optional<bool> read_label_is_index(const checkpoint::Metadata& metadata,
                                        const std::string& path);

}  // namespace trainer::train
