#include "inference/open_model/open_model.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "checkpoint/store.h"
#include "config/keys.h"
#include "inference/open_model/run_archive.h"
#include "inference/open_model/source.h"
#include "inference/open_model/untrained.h"

namespace trainer::inference {

namespace keys = config::keys;

namespace {

// Throws DataError for images and folders that are not a run, with what they are.
void reject_other_sources(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  if (is_folder && !checkpoint::list_checkpoints(checkpoint::find_checkpoints(path)).empty()) {
    return;
  }
  reject_images(path);
}

}  // namespace

OpenedModel open_model(const ModelSource& source, const OpenOptions& options) {
  if (is_config(source.path)) {
    if (source.checkpoint != results::CheckpointChoice::kDefault || source.average) {
      const std::string option = source.average ? "average" : to_string(source.checkpoint);
      throw ConfigError({}, "--", option, " is of a run, and ", source.path,
                        " is a config, whose model is not trained; name the folder of a run");
    }
    return open_untrained(source.path, source.weights, options);
  }
  if (!source.weights.empty()) {
    throw ConfigError({}, "--weights is of a config (.yaml), whose model is not trained; ",
                      source.path, " has weights of its own");
  }
  return open_trained_model(source, options);
}

OpenedModel open_trained_model(const ModelSource& source, const OpenOptions& options) {
  reject_other_sources(source.path);
  const std::string choice = to_string(source.checkpoint);
  OpenedModel opened = source.average ? open_average(source.path, *source.average, options)
                                      : open_trained(source.path, source.checkpoint, options);
  opened.checkpoint_option = source.average   ? concat("--average ", *source.average)
                             : choice.empty() ? ""
                                              : "--" + choice;
  return opened;
}

bool is_config(const std::string& path) {
  const std::string ending = Path(path).extension().string();
  return (ending == ".yaml" || ending == ".yml") && std::filesystem::is_regular_file(path);
}

std::vector<config::Override> without_training_keys(
    const std::vector<config::Override>& overrides) {
  std::vector<config::Override> all{
      {keys::kLrScaling, "none", "--replicas"},
      {keys::kStrategy, "all_reduce", "--replicas"},
      {keys::kMaxStaleness, "null", "--replicas", config::Override::Syntax::kYaml}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return all;
}

model::SampleSpec sample_spec(const OpenedModel& opened) {
  model::SampleSpec spec;
  if (!opened.image_shape) {
    throw DataError(
        opened.path,
        "has no shape of the images that it was trained on, since an older version has written it");
  }
  spec.image = *opened.image_shape;
  spec.image_type = opened.image_type.value_or(DType::kUInt8);
  spec.classes = std::ssize(opened.classes);
  // Older checkpoints do not have it. Several binary targets: class indices would mean one logit.
  spec.label_is_index = opened.label_is_index.value_or(
      opened.config.model.loss != LossKind::kBinaryCrossEntropy || spec.classes == 2);
  return spec;
}

Notice note_on_predictions(const OpenedModel& opened) {
  if (!opened.has_initial_layers) return {""};
  return Notice::note(opened.path + ": untrained: the predictions mean nothing yet");
}

}  // namespace trainer::inference
