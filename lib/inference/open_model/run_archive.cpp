#include "inference/open_model/run_archive.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "checkpoint/average.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "config/keys.h"
#include "config/paths.h"
#include "data/class_names.h"
#include "data/samples/splits.h"
#include "inference/decisions/stored_result.h"
#include "results/run_record.h"
#include "train/class_order.h"
#include "train/run_dir.h"
#include "train/schedule/stages.h"
#include "train/state.h"

namespace trainer::inference {
namespace {

namespace keys = config::keys;

bool changes_data(const config::Override& setting) {
  return setting.path == keys::kData || setting.path.starts_with(concat(keys::kData, '.')) ||
         setting.path == keys::kSeed;
}

// Returns true if a split is the training split or a part of its samples.
bool of_training_data(const config::Data& config, Split split) {
  return split == Split::kTrain ||
         (split == Split::kValidation && config::divides_training_samples(config));
}

void check_training_data(const OpenedModel& opened, const data::Datasets& data, Split split) {
  if (!of_training_data(opened.config.data, split) || opened.training_data.empty()) return;
  if (data::same_division(opened.training_data, data.dataset(split)->fingerprint())) return;
  if (split == Split::kTrain) {
    return opened.warn("the training data is not what it was when the run was trained");
  }
  const std::string text =
      "the training data is not what it was when the run was trained: another part of it is set "
      "aside for validation now, in which there are images that the run was trained on";
  if (opened.other_data) return opened.warn(text);
  throw DataError(opened.path, text +
                                   ". Restore the data, or name other data with --set "
                                   "data.path=NEW");
}

// Returns the config of the stage to which the tensors of a checkpoint belong.
config::Config stage_of_checkpoint(config::Config config, std::size_t stage,
                                   const std::string& run_or_file) {
  const std::size_t stages = config.model.backbone ? config.model.backbone->unfreeze.size() : 0;
  if (stage > stages) {
    throw DataError(run_or_file, "is of stage ", stage, " of ", keys::kBackboneUnfreeze,
                    ", which has ", stages, " entries here; expected at least ", stage,
                    ": leave out an override of this key, or take another checkpoint");
  }
  return train::stage_config(std::move(config), stage);
}

// Replaces the relative paths of the config of `run` by those that hold in the current folder, as
// config::find_paths_of_run() does. `base` is the folder in which the run was started, relative to
// the run folder, so that a copied project is used with its own data. Only reads: whoever made the
// run chose this folder as well as the paths. Ignores an empty and an absolute base.
void find_recorded_paths(config::LoadedConfig& loaded, const Path& run, const std::string& base) {
  if (base.empty() || Path(base).is_absolute()) return;
  std::error_code error;
  const Path folder = std::filesystem::relative(run / base, error);
  if (!folder.empty()) config::find_paths_of_run(loaded, folder);
}

OpenedModel make_opened_model(const std::string& run_or_file, checkpoint::TensorFile file,
                              const OpenOptions& options) {
  OpenedModel opened;
  opened.path = run_or_file;
  opened.file = std::move(file);
  const checkpoint::Metadata& metadata = opened.file.metadata;
  const auto text = metadata.find("config");
  if (text == metadata.end()) {
    throw DataError(run_or_file,
                    "carries no config: not a checkpoint of a run. Name a run folder or a file of "
                    "its checkpoints");
  }
  config::LoadedConfig loaded =
      config::parse_recorded_config(text->second, run_or_file + ":config",
                                    without_training_keys(options.overrides), options.environment);
  const auto base = metadata.find("base");
  const std::optional<Path> run = find_run_folder(run_or_file);
  if (run && base != metadata.end()) find_recorded_paths(loaded, *run, base->second);
  opened.config = std::move(loaded.config);
  opened.platform = backend::read_platform(options.environment);
  // The averages that evaluation reads are those of the parameters trained last.
  opened.config = stage_of_checkpoint(std::move(opened.config),
                                      train::read_stage(metadata, run_or_file), run_or_file);
  opened.classes = checkpoint::read_classes(metadata);
  opened.step = train::read_step(metadata, run_or_file);
  if (const auto found = metadata.find("training data"); found != metadata.end()) {
    opened.training_data = found->second;
  }
  opened.other_data = std::ranges::any_of(options.overrides, changes_data);
  opened.warn = options.warn;
  opened.image_shape = train::read_image_shape(metadata, run_or_file);
  opened.image_type = train::read_image_type(metadata, run_or_file);
  opened.label_is_index = train::read_label_is_index(metadata, run_or_file);
  return opened;
}

// Names the best checkpoint and the last one, unless both are of the same step.
Notice note_on_best(const OpenedModel& opened) {
  const std::vector<checkpoint::Saved> saved =
      checkpoint::list_checkpoints(checkpoint::find_checkpoints(opened.path));
  if (saved.empty() || saved.back().step == opened.step) return {""};
  std::string text = concat(opened.path, ": the best checkpoint, of step ", opened.step);
  const checkpoint::Metadata& metadata = opened.file.metadata;
  if (const auto value = metadata.find("best"); value != metadata.end()) {
    const std::optional<double> number = parse_real(value->second);
    if (number) text += concat(" (", opened.config.run.best, " ", fixed(*number, 4), ")");
  }
  return Notice::note(concat(text, "; --last takes that of step ", saved.back().step));
}

// Returns the best checkpoint of a run that has kept one and can be read.
std::optional<checkpoint::TensorFile> load_best_if_kept(const std::string& run, const Warn& warn) {
  const Path folder = checkpoint::find_checkpoints(run);
  if (!std::filesystem::exists(folder / "best.safetensors")) return std::nullopt;
  try {
    return checkpoint::load_best(run);
  } catch (const DataError& error) {
    warn(concat(error.what(), "; trying the last checkpoint"));
    return std::nullopt;
  }
}

// Opens a split of a config, whose classes must be those of the run.
data::Datasets open_run_data(const OpenedModel& opened, config::Data config, Split split) {
  // A split alone may lack the last classes; the run has their number.
  if (config.classes.empty() && !config.num_classes &&
      config.format != config::DataFormat::kSynthetic && !opened.classes.empty()) {
    config.num_classes = std::ssize(opened.classes);
  }
  data::Datasets data = data::open_datasets(config, opened.config.seed, split);
  if (data.classes != opened.classes) {
    throw DataError(opened.path, "was trained on the classes [", data::list_classes(opened.classes),
                    "], but the ", to_string(split), " split has [",
                    data::list_classes(data.classes), "]",
                    train::describe_class_difference(opened.classes, data.classes),
                    ". Give the data set with the classes of the run, in the same order");
  }
  return data;
}

}  // namespace

config::LoadedConfig load_recorded(const Path& run, const std::vector<config::Override>& overrides,
                                   const config::Environment& environment) {
  const std::string file = train::config_file(run).string();
  config::LoadedConfig loaded =
      config::parse_recorded_config(read_text_file(file), file, overrides, environment);
  find_recorded_paths(loaded, run,
                      results::find_run_record(run).value_or(results::RunRecord{}).base);
  return loaded;
}

OpenedModel open_trained(const std::string& run_or_file, results::CheckpointChoice choice,
                         const OpenOptions& options) {
  std::optional<checkpoint::TensorFile> file;
  const bool is_run = std::filesystem::is_directory(run_or_file);
  const bool is_chosen = choice != results::CheckpointChoice::kDefault;
  if (is_run && !is_chosen) file = load_best_if_kept(run_or_file, options.warn);
  const bool is_best = file.has_value() || choice == results::CheckpointChoice::kBest;
  if (!file && is_best) file = checkpoint::load_best(run_or_file);
  if (!file) {
    std::vector<std::string> warnings;
    file = checkpoint::load_last(run_or_file, warnings);
    for (const std::string& warning : warnings) options.warn(warning);
  }
  OpenedModel opened = make_opened_model(run_or_file, std::move(*file), options);
  if (!is_run) return opened;
  opened.checkpoint = is_best ? results::CheckpointChoice::kBest : results::CheckpointChoice::kLast;
  if (is_best && !is_chosen) options.warn(note_on_best(opened));
  return opened;
}

OpenedModel open_average(const std::string& run, std::int64_t count, const OpenOptions& options) {
  constexpr int kAttempts = 3;
  if (std::filesystem::is_regular_file(run)) {
    throw ConfigError({}, "--average is of the checkpoints of a run, and ", run,
                      " is a file; name the folder of the run");
  }
  // A run that is still going removes the oldest checkpoint when it has saved another.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::vector<checkpoint::Saved> saved = checkpoint::last_checkpoints(run, count);
    std::optional<checkpoint::TensorFile> mean = checkpoint::average_checkpoints(saved);
    if (!mean) continue;
    std::vector<std::string> steps;
    for (const checkpoint::Saved& one : saved) steps.push_back(std::to_string(one.step));
    options.warn(Notice::note(concat(run, ": the mean of the checkpoints of steps ", join(steps))));
    return make_opened_model(run, std::move(*mean), options);
  }
  throw DataError(run,
                  "its checkpoints are removed before they can be read; average fewer, or raise "
                  "run.keep of the run");
}

data::Datasets open_split(const OpenedModel& opened, Split split) {
  data::Datasets data = open_run_data(opened, opened.config.data, split);
  check_training_data(opened, data, split);
  if (split == Split::kTrain) {
    data::leave_out_unreadable(data.train, data.train_files, data::DamagedFiles::Portion::kMain);
  }
  return data;
}

data::Datasets open_undivided_training_data(const OpenedModel& opened) {
  config::Data config = opened.config.data;
  config.fold.reset();
  config.validation_split = 0;
  data::Datasets data = open_run_data(opened, std::move(config), Split::kTrain);
  data::leave_out_unreadable(data.train, data.train_files, data::DamagedFiles::Portion::kMain);
  return data;
}

bool is_same_training_data(const OpenedModel& opened, const data::Dataset& dataset) {
  return opened.training_data.empty() ||
         data::same_division(opened.training_data, dataset.fingerprint());
}

OpenedSplit open_split_or_default(const OpenedModel& opened, std::optional<Split> split) {
  if (split) return {*split, open_split(opened, *split)};
  try {
    return {Split::kTest, open_split(opened, Split::kTest)};
  } catch (const data::MissingSplit&) {
  }
  try {
    OpenedSplit validation{Split::kValidation, open_split(opened, Split::kValidation)};
    opened.warn(Notice::note("the data has no test split; this is its validation split"));
    return validation;
  } catch (const data::MissingSplit&) {
    throw ConfigError({}, opened.path,
                      ": its data has no test split and no validation split; name one with --set "
                      "data.test.path=PLACE, or give --split train");
  }
}

}  // namespace trainer::inference
