#include "inference/run_archive.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/formats/json.h"
#include "base/text.h"
#include "config/keys.h"
#include "data/splits.h"
#include "inference/untrained.h"
#include "train/state.h"
#include "train/steps/stages.h"

namespace trainer::inference {
namespace {

namespace keys = config::keys;

bool changes_data(const config::Override& setting) {
  return setting.path == keys::kData || setting.path.starts_with(concat(keys::kData, '.')) ||
         setting.path == keys::kSeed;
}

// Whether a split is cut out of the samples of training, or is these.
bool of_training_data(const config::Data& config, const std::string& split) {
  return split == "train" || (split == "validation" && config.validation_split > 0);
}

void check_training_data(const Trained& trained, const data::Datasets& data,
                         const std::string& split) {
  if (!of_training_data(trained.config.data, split) || trained.training_data.empty()) return;
  if (data::same_division(trained.training_data, split_of(data, split).fingerprint())) return;
  if (split == "train") {
    return trained.warn("the training data is not what it was when the run was trained");
  }
  const std::string text =
      "the training data is not what it was when the run was trained: another part of it is set "
      "aside for validation now, in which there are images that the run was trained on";
  if (trained.other_data) return trained.warn(text);
  throw DataError(trained.path, text +
                                    ". Restore the data, or name other data with --set "
                                    "data.path=NEW");
}

std::string numbers(const std::vector<double>& values, double otherwise) {
  if (values.empty()) return concat(otherwise);
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + concat(value);
  return values.size() == 1 ? text : "[" + text + "]";
}

std::string how_read(const config::Data& data) {
  if (!config::is_image_format(data.format) || data.resize.size() != 2) return "pixels as they are";
  const bool cubic = data.interpolation == config::Interpolation::kBicubic;
  std::string text = concat("images resized to ", data.resize[0], " x ", data.resize[1], ", ",
                            cubic ? "bicubic" : "bilinear", data.antialias ? ", antialias" : "");
  if (data.fit == config::Fit::kCrop) {
    text += concat(", the shorter side fitted and the middle ", data.crop_fraction, " cut out");
  }
  return text + ", 0 to 255";
}

}  // namespace

std::vector<config::Override> without_training_keys(
    const std::vector<config::Override>& overrides) {
  std::vector<config::Override> all{{keys::kLrScaling, "none", "--replicas"},
                                    {keys::kStrategy, "all_reduce", "--replicas"},
                                    {keys::kMaxStaleness, "null", "--replicas"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

namespace {

// The mean of a run's last checkpoints, with a note that names them.
checkpoint::TensorFile load_average(const std::string& run, std::int64_t count,
                                    const std::function<void(const Notice&)>& warn) {
  if (std::filesystem::is_regular_file(run)) {
    throw ConfigError({}, concat("--average is of the checkpoints of a run, and ", run,
                                 " is a file; name the folder of the run"));
  }
  const std::vector<checkpoint::Saved> saved = checkpoint::last_checkpoints(run, count);
  std::vector<std::string> steps;
  for (const checkpoint::Saved& one : saved) steps.push_back(std::to_string(one.step));
  warn(Notice::note(concat(run, ": the mean of the checkpoints of steps ", join(steps))));
  return checkpoint::mean_of(saved);
}

Trained trained_of(const std::string& run_or_file, checkpoint::TensorFile file,
                   const std::vector<config::Override>& overrides,
                   const config::Environment& environment,
                   const std::function<void(const Notice&)>& warn) {
  Trained trained;
  trained.path = run_or_file;
  trained.file = std::move(file);
  const checkpoint::Metadata& metadata = trained.file.metadata;
  const auto text = metadata.find("config");
  if (text == metadata.end()) {
    throw DataError(run_or_file,
                    "carries no config: not a checkpoint of a run. Name a run folder or a file of "
                    "its checkpoints");
  }
  trained.config = config::parse_config(text->second, run_or_file + ":config",
                                        without_training_keys(overrides), environment)
                       .config;
  // The averages that evaluation reads are those of the parameters trained last.
  trained.config =
      train::config_of_stage(std::move(trained.config), train::stage_of(metadata, run_or_file));
  trained.classes = train::classes_of(metadata);
  trained.step = train::step_of(metadata, run_or_file);
  if (const auto found = metadata.find("training data"); found != metadata.end()) {
    trained.training_data = found->second;
  }
  trained.other_data = std::any_of(overrides.begin(), overrides.end(), changes_data);
  trained.warn = warn;
  trained.image_shape = train::image_shape_of(metadata);
  trained.image_type = train::image_type_of(metadata);
  trained.label_is_index = train::label_is_index_of(metadata);
  return trained;
}

}  // namespace

Trained open_trained(const std::string& run_or_file, bool best,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment,
                     const std::function<void(const Notice&)>& warn) {
  std::vector<std::string> warnings;
  checkpoint::TensorFile file = checkpoint::load(run_or_file, best, warnings);
  for (const std::string& warning : warnings) warn(warning);
  return trained_of(run_or_file, std::move(file), overrides, environment, warn);
}

Trained open_model(const ModelSource& source, const std::vector<config::Override>& overrides,
                   const config::Environment& environment,
                   const std::function<void(const Notice&)>& warn) {
  if (is_config(source.path)) {
    if (source.best || source.average) {
      throw ConfigError(
          {}, concat(source.best ? "--best" : "--average", " is of a run, and ", source.path,
                     " is a config, whose model is not trained; name the folder of "
                     "a run"));
    }
    return open_untrained(source.path, source.weights, overrides, environment, warn);
  }
  if (!source.weights.empty()) {
    throw ConfigError({}, concat("--weights is of a config (.yaml), whose model is not trained; ",
                                 source.path, " has weights of its own"));
  }
  if (source.average) {
    return trained_of(source.path, load_average(source.path, *source.average, warn), overrides,
                      environment, warn);
  }
  return open_trained(source.path, source.best, overrides, environment, warn);
}

model::SampleSpec sample_spec(const Trained& trained) {
  model::SampleSpec spec;
  if (!trained.image_shape) {
    throw DataError(trained.path,
                    "does not say which images it was trained on: it is of an older version");
  }
  spec.image = *trained.image_shape;
  spec.image_type = trained.image_type.value_or(DType::kUInt8);
  spec.classes = static_cast<std::int64_t>(trained.classes.size());
  // Older checkpoints do not say. Several binary targets: class indices would mean one logit.
  spec.label_is_index = trained.label_is_index.value_or(
      trained.config.model.loss != config::LossKind::kBinaryCrossEntropy || spec.classes == 2);
  return spec;
}

data::Datasets open_split(const Trained& trained, const std::string& split) {
  config::Data config = trained.config.data;
  // A split alone may lack the last classes; the run knows how many there are.
  if (config.classes.empty() && !config.num_classes &&
      config.format != config::DataFormat::kSynthetic && !trained.classes.empty()) {
    config.num_classes = static_cast<std::int64_t>(trained.classes.size());
  }
  data::Datasets data = data::open_datasets(config, trained.config.seed, split);
  if (data.classes != trained.classes) {
    throw DataError(trained.path,
                    concat("was trained on the classes [", join(trained.classes), "], but the ",
                           split, " split has [", join(data.classes), "]",
                           ". Give the data set with the classes of the run, in the same order"));
  }
  check_training_data(trained, data, split);
  if (split == "train") {
    data::leave_out_unreadable(data.train, data.train_files, data::DamagedFiles::Portion::kMain);
  }
  return data;
}

OpenedSplit open_split_or_default(const Trained& trained, const std::string& split) {
  if (!split.empty()) return {split, open_split(trained, split)};
  try {
    return {"test", open_split(trained, "test")};
  } catch (const data::MissingSplit&) {
  }
  try {
    OpenedSplit opened{"validation", open_split(trained, "validation")};
    trained.warn(Notice::note("the data has no test split; this is its validation split"));
    return opened;
  } catch (const data::MissingSplit&) {
    throw ConfigError(
        {}, concat(trained.path,
                   ": its data has no test split and no validation split; name one with --set "
                   "data.test.path=PLACE, or give --split train"));
  }
}

const data::Dataset& split_of(const data::Datasets& data, const std::string& split) {
  const auto& dataset = split == "train"        ? data.train
                        : split == "validation" ? data.validation
                                                : data.test;
  return *dataset;
}

const data::DamagedFiles* files_of(const data::Datasets& data, const std::string& split) {
  const auto& files = split == "train"        ? data.train_files
                      : split == "validation" ? data.validation_files
                                              : data.test_files;
  return files.get();
}

std::vector<std::pair<std::string, std::string>> onnx_metadata(const Trained& trained) {
  const config::Normalize normalize = config::normalize_of(trained.config.data);
  return {{"classes", to_json_line(trained.classes)},
          {"preprocessing", concat("input: ", how_read(trained.config.data), "; inside the model: ",
                                   normalize.reverse_channels ? "channels reversed, then " : "",
                                   "(x * ", normalize.scale, " - ", numbers(normalize.mean, 0),
                                   ") / ", numbers(normalize.std, 1))},
          {"run", concat(trained.config.name, ", step ", trained.step)}};
}

}  // namespace trainer::inference
