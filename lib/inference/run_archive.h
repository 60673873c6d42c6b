// What a run has learnt, opened again from its checkpoint.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "config/config.h"
#include "data/data.h"
#include "model/model.h"

namespace trainer::inference {

struct Trained {
  std::string path;  // as the user named it: a run folder or a file
  checkpoint::TensorFile file;
  config::Config config;  // the run's, with the overrides
  std::vector<std::string> classes;
  std::int64_t step = 0;
  // What the model was trained on.
  std::optional<Shape> image_shape;
  std::optional<DType> image_type;
  std::optional<bool> label_is_index;
  std::string training_data = {};                     // fingerprint of the training split
  bool other_data = false;                            // the overrides change what the data is
  std::function<void(const std::string&)> warn = {};  // what the user should know; one line each
};

// Opens a run's newest checkpoint, its best one, or a checkpoint file. The overrides change the
// config that the checkpoint carries. Throws DataError when it carries none.
Trained open_trained(const std::string& run_or_file, bool best,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment,
                     const std::function<void(const std::string&)>& warn);

// What the model needs to know of the samples, to be built without the data set.
model::SampleSpec sample_spec(const Trained& trained);

// One split of the run's data. Throws DataError naming both lists when its classes are not those
// that the run was trained on, and for a validation part of other data than the run's: images it
// was trained on would be among them. The user who names other data is but warned.
data::Datasets open_split(const Trained& trained, const std::string& split);

// The split to evaluate: `split`, or when it is empty test, or validation where there is no test
// split, which the user is told. Throws ConfigError saying what to give when there is neither.
struct OpenedSplit {
  std::string name;
  data::Datasets data;
};
OpenedSplit open_split_or_default(const Trained& trained, const std::string& split);

const data::Dataset& split_of(const data::Datasets& data, const std::string& split);
// Null for a split that is no image files.
const data::DamagedFiles* files_of(const data::Datasets& data, const std::string& split);

// What an ONNX file says of the model: its classes, a JSON list, and what is done to the images,
// before it is given them and inside.
std::vector<std::pair<std::string, std::string>> onnx_metadata(const Trained& trained);

}  // namespace trainer::inference
