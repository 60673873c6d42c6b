#include "train/trained.h"

#include "base/error.h"
#include "train/stages.h"
#include "train/state.h"

namespace trainer::train {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return "[" + text + "]";
}

}  // namespace

Trained open_trained(const std::string& run_or_file, bool best,
                     const std::vector<config::Override>& overrides,
                     const config::Environment& environment,
                     const std::function<void(const std::string&)>& warn) {
  Trained trained;
  trained.path = run_or_file;
  std::vector<std::string> warnings;
  trained.file = checkpoint::load(run_or_file, best, warnings);
  for (const std::string& warning : warnings) warn(warning);
  const checkpoint::Metadata& metadata = trained.file.metadata;
  const auto text = metadata.find("config");
  if (text == metadata.end()) {
    throw DataError(run_or_file,
                    "carries no config: not a checkpoint of a run. Name a run folder or a file of "
                    "its checkpoints");
  }
  trained.config =
      config::parse_config(text->second, run_or_file + ":config", overrides, environment).config;
  // The averages that evaluation reads are those of the parameters trained last.
  trained.config = config_of_stage(std::move(trained.config), stage_of(metadata, run_or_file));
  trained.classes = classes_of(metadata);
  trained.step = step_of(metadata, run_or_file);
  trained.image_shape = image_shape_of(metadata);
  trained.image_type = image_type_of(metadata);
  trained.label_is_index = label_is_index_of(metadata);
  return trained;
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
                    concat("was trained on the classes ", join(trained.classes), ", but the ",
                           split, " split has ", join(data.classes),
                           ". Give the data set with the classes of the run, in the same order"));
  }
  return data;
}

const data::Dataset& split_of(const data::Datasets& data, const std::string& split) {
  const auto& dataset = split == "train"        ? data.train
                        : split == "validation" ? data.validation
                                                : data.test;
  return *dataset;
}

}  // namespace trainer::train
