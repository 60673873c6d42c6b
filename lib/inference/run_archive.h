// Opens a trained run from its checkpoint, or the model of a config before any training.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/notice.h"
#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/data.h"
#include "model/model.h"

namespace trainer::inference {

struct Trained {
  std::string path;  // as the user named it: a run folder, a checkpoint or a config
  checkpoint::TensorFile file;
  config::Config config;  // the run's, with the overrides
  std::vector<std::string> classes;
  std::int64_t step = 0;
  // What the model was trained on.
  std::optional<Shape> image_shape;
  std::optional<DType> image_type;
  std::optional<bool> label_is_index;
  std::string training_data = {};                // fingerprint of the training split
  bool other_data = false;                       // the overrides change what the data is
  std::function<void(const Notice&)> warn = {};  // what the user should know; one line each
};

// Opens a run's newest checkpoint, its best one, or a checkpoint file. The overrides change the
// config that the checkpoint carries. Throws DataError when it carries none.
Trained open_trained(const std::string& run_or_file, bool best,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment,
                     const std::function<void(const Notice&)>& warn);

// What the command line names a model by.
struct ModelSource {
  std::string path;                          // a run folder, a checkpoint or a config file
  bool best = false;                         // of a run folder
  std::optional<std::int64_t> average = {};  // of a run folder: how many of the last checkpoints
  std::string weights;                       // of a config: see open_untrained()
};
// open_untrained() for a config, otherwise open_trained(). Throws ConfigError for an option that
// does not fit the path.
Trained open_model(const ModelSource& source, const std::vector<config::Override>& overrides,
                   const config::Environment& environment,
                   const std::function<void(const Notice&)>& warn);

// Adds what only training asks of several replicas; the given overrides come later and count.
std::vector<config::Override> without_training_keys(const std::vector<config::Override>& overrides);

// The sample spec of the model, without the data set.
model::SampleSpec sample_spec(const Trained& trained);

// Opens one split of the run's data. Throws DataError naming both lists when its classes differ
// from those of the run, and when validation samples were split off from other data than the run's,
// as training images would be among them. Other data that the user names only causes a warning.
data::Datasets open_split(const Trained& trained, const std::string& split);

// The split to evaluate: `split`; when it is empty, test, or else validation with a note. Throws
// ConfigError with advice when the run has neither.
struct OpenedSplit {
  std::string name;
  data::Datasets data;
};
OpenedSplit open_split_or_default(const Trained& trained, const std::string& split);

const data::Dataset& split_of(const data::Datasets& data, const std::string& split);
// Null for a split that does not consist of image files.
const data::DamagedFiles* files_of(const data::Datasets& data, const std::string& split);

// The metadata of an ONNX file of the model: its classes as a JSON list, and the preprocessing of
// images before and inside the model.
std::vector<std::pair<std::string, std::string>> onnx_metadata(const Trained& trained);

}  // namespace trainer::inference
