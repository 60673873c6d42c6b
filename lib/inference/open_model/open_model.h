// Opens a model by what the command line names: a run, a checkpoint or a config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/open.h"
#include "base/notice.h"
#include "checkpoint/tensor_file.h"
#include "config/config.h"
#include "model/build_model.h"
#include "results/run_files/checkpoint_choice.h"

namespace trainer::inference {

struct OpenedModel {
  std::string path;  // the user's path: a run folder, a checkpoint or a config
  checkpoint::TensorFile file;
  config::Config config;            // the run's, with the overrides
  backend::Platform platform = {};  // the machine that runs the model
  std::vector<std::string> classes;
  std::int64_t step = 0;
  // kBest or kLast of a run folder; kDefault of anything else.
  results::CheckpointChoice checkpoint = results::CheckpointChoice::kDefault;
  std::string checkpoint_option = {};  // the option that chose it, such as "--average 3"
  // The samples that the model was trained on.
  std::optional<Shape> image_shape;
  std::optional<DType> image_type;
  std::optional<bool> label_is_index;
  std::string training_data = {};   // fingerprint of the training split
  bool other_data = false;          // the overrides change what the data is
  bool has_initial_layers = false;  // some parameters are as initialised

  // Returns whether an image has several labels, whose names are `classes`.
  bool is_multi_label() const {
    const bool is_one_number = config::holds_arrays(config.data.format) && classes.size() == 1;
    return config.data.may_have_several_labels() && !label_is_index.value_or(true) &&
           !is_one_number;
  }
  Warn warn = {};  // receives what the user should know, line by line
};

// The arguments by which the command line names a model.
struct ModelSource {
  std::string path;  // a run folder, a checkpoint or a config file
  results::CheckpointChoice checkpoint = results::CheckpointChoice::kDefault;
  std::optional<std::int64_t> average = {};  // a run folder: the number of last checkpoints
  std::string weights;                       // a config: see open_untrained()
};
// What a model is opened with, beside its name.
struct OpenOptions {
  std::vector<config::Override> overrides = {};
  config::Environment environment = {};
  Warn warn = [](const Notice&) {};
};
// open_untrained() for a config, otherwise open_trained() or open_average(). Throws ConfigError for
// an option that does not fit the path.
OpenedModel open_model(const ModelSource& source, const OpenOptions& options);
// The same for a run folder or a checkpoint. Throws DataError for other paths.
OpenedModel open_trained_model(const ModelSource& source, const OpenOptions& options);

// Returns true for a path with the ending of a config file.
bool is_config(const std::string& path);

// Returns overrides that remove the keys that only training on several replicas has, followed by
// the given ones, which take precedence.
std::vector<config::Override> without_training_keys(const std::vector<config::Override>& overrides);

// Returns the sample spec of the model, without the data set.
model::SampleSpec sample_spec(const OpenedModel& opened);

// Notes that predictions of a model with initial layers mean nothing; empty for other models.
Notice note_on_predictions(const OpenedModel& opened);

}  // namespace trainer::inference
