#include "train/state.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/formats/table.h"
#include "base/text.h"
#include "checkpoint/weights.h"
#include "config/keys.h"
#include "data/class_names.h"
#include "train/class_order.h"
#include "train/run_dir.h"

namespace trainer::train {
namespace {

namespace keys = config::keys;

const std::string kHookPrefix = "hook.";
// Keys of the fingerprints of the training data at the last save and at the first start.
constexpr char kTrainingData[] = "training data";
constexpr char kFirstData[] = "training data at the first start";
constexpr char kRecordedStep[] = "recorded_step";  // only where it is not the checkpoint's step

// Returns the values that follow from several keys or from the data and must be equal on resume.
// For single keys see config::resume_changes().
checkpoint::Metadata identity(const data::Datasets& data, const TrainingPlan& plan) {
  return {{"global batch", std::to_string(plan.batch)},
          {keys::kShard, plan.passes_per_epoch > 1
                             ? concat("off over ", plan.passes_per_epoch, " replicas")
                             : "sample"},
          {kTrainingData, data.train ? data.train->fingerprint() : ""}};
}

std::string join_dims(const Shape& shape) {
  std::string text;
  for (const std::int64_t dim : shape.dims())
    text += (text.empty() ? "" : " ") + std::to_string(dim);
  return text;
}

// Describes the difference of two fingerprints without their checksums, which mean nothing to a
// user.
std::string changed_data(const std::string& was, const std::string& now) {
  // In "60000 x ..., first 3000, ..." the number that data.limit leaves counts.
  const auto count = [](const std::string& text) {
    constexpr std::string_view kFirst = ", first ";
    const std::size_t limited = text.rfind(kFirst);
    const std::size_t at = limited == std::string::npos ? 0 : limited + kFirst.size();
    return text.substr(at, text.find_first_of(" ,", at) - at);
  };
  if (count(was) != count(now)) {
    return concat("training data: ", count(was), " samples before, ", count(now), " now");
  }
  return "training data: other files, labels or way of preparing them (size, division, mixing)";
}

// Reads the entries of a checkpoint. Throws DataError for an entry of another form.
class Entries {
 public:
  // `path` names the checkpoint in messages.
  Entries(const checkpoint::Metadata& metadata, const std::string& path)
      : metadata_(metadata), path_(path) {}

  // Returns null if there is no such entry.
  const std::string* find(const std::string& key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }
  bool has(const std::string& key) const { return metadata_.contains(key); }
  template <class Number>
  Number number(const std::string& key) const {
    const std::string* text = find(key);
    if (text == nullptr) throw DataError(path_, "lacks \"" + key + "\": not a checkpoint of a run");
    Number value{};
    const char* const last = text->data() + text->size();
    const auto [end, error] = std::from_chars(text->data(), last, value);
    if (error != std::errc() || end != last) fail(key, "a number");
    return value;
  }
  // Returns a number of steps or evaluations, which is at least `least` and does not overflow sums.
  std::int64_t count(const std::string& key, std::int64_t least = 0) const {
    constexpr std::int64_t kMax = std::int64_t{1} << 53;
    const auto value = number<std::int64_t>(key);
    if (value >= least && value <= kMax) return value;
    throw DataError(path_, "\"", key, "\" is ", value, ", expected a number from ", least,
                    " to 2^53: the checkpoint is damaged");
  }
  [[noreturn]] void fail(const std::string& key, std::string_view expected) const {
    throw DataError(path_, "\"", key, "\" is \"", printable(*find(key)), "\", expected ", expected,
                    ": the checkpoint is damaged");
  }

 private:
  const checkpoint::Metadata& metadata_;
  const std::string& path_;
};

void add_plateau(const PlateauState& plateau, checkpoint::Metadata& metadata) {
  metadata["plateau_factor"] = significant(plateau.factor, 17);
  if (plateau.best) metadata["plateau_best"] = significant(*plateau.best, 17);
  metadata["plateau_waited"] = std::to_string(plateau.waited);
  metadata["plateau_cooldown"] = std::to_string(plateau.cooldown);
  metadata["plateau_counted"] = std::to_string(plateau.counted);
}

// Returns the initial state if the run had another schedule before.
PlateauState read_plateau(const Entries& entries) {
  PlateauState plateau;
  if (!entries.has("plateau_factor")) return plateau;
  plateau.factor = entries.number<double>("plateau_factor");
  if (entries.has("plateau_best")) plateau.best = entries.number<double>("plateau_best");
  plateau.waited = entries.count("plateau_waited");
  plateau.cooldown = entries.count("plateau_cooldown");
  plateau.counted = entries.count("plateau_counted", -1);
  return plateau;
}

// Returns the config of the checkpoint; nothing if the checkpoint is of a version with other keys.
std::optional<config::Config> read_config(const checkpoint::Metadata& metadata) {
  const auto text = metadata.find("config");
  if (text == metadata.end()) return std::nullopt;
  try {
    return config::parse_recorded_config(text->second, "config").config;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

// Returns the metric of schedule.reduce_on_plateau, or "" for another schedule.
std::string plateau_metric(const config::Config& config) {
  const auto* plateau = std::get_if<config::ReduceOnPlateauSchedule>(&config.schedule.kind);
  return plateau == nullptr ? "" : plateau->metric;
}

// Drops the states of hooks that hold values of a metric that they no longer watch.
void drop_other_metrics(const config::Config& before, const config::Config& config,
                        RunState& state) {
  const config::Train &old_train = before.train, &train = config.train;
  if (old_train.early_stop && train.early_stop &&
      old_train.early_stop->metric != train.early_stop->metric) {
    state.hooks.erase("early_stop");
  }
  if (old_train.stop_at && train.stop_at && old_train.stop_at->metric != train.stop_at->metric) {
    state.hooks.erase("stop_at");
  }
}

// Returns whether parameters of the run may not fit after a change, which begins with its key.
bool changes_shapes(const std::string& change) {
  return change.starts_with("model") || change.starts_with("data.resize") ||
         change.starts_with("data.channels");
}

}  // namespace

checkpoint::Metadata to_metadata(const RunState& state, const config::Config& config,
                                 const data::Datasets& data, const TrainingPlan& plan) {
  checkpoint::Metadata metadata = identity(data, plan);
  if (!state.first_data.empty() && state.first_data != metadata.at(kTrainingData)) {
    metadata[kFirstData] = state.first_data;
  }
  metadata["step"] = std::to_string(state.step);
  if (state.recorded_step < state.step) {
    metadata[kRecordedStep] = std::to_string(state.recorded_step);
  }
  if (state.stage > 0) metadata["freeze_stage"] = std::to_string(state.stage);
  if (state.best) {
    metadata["best"] = significant(*state.best, 17);
    metadata["best_step"] = std::to_string(state.best_step);
  }
  if (state.loss_scale) {
    metadata["loss_scale"] = significant(static_cast<double>(state.loss_scale->value), 17);
    metadata["loss_scale_good_updates"] = std::to_string(state.loss_scale->good_updates);
  }
  if (state.plateau) add_plateau(*state.plateau, metadata);
  if (state.restored_step > 0) metadata["restored_step"] = std::to_string(state.restored_step);
  if (state.evaluation_due) metadata["evaluation_due"] = "true";
  if (state.stopped) metadata["stopped"] = "true";
  metadata["total_steps"] = std::to_string(plan.total_steps);
  metadata["steps_per_epoch"] = std::to_string(plan.steps_per_epoch);
  for (const auto& [name, text] : state.hooks) metadata[kHookPrefix + name] = text;
  checkpoint::add_classes(data.classes, metadata);
  metadata["image_shape"] = join_dims(data.image_shape);
  metadata["image_type"] = to_string(data.image_type);
  metadata["label_is_index"] = data.label_is_index ? "true" : "false";
  metadata["config"] = config::to_yaml(config);
  return metadata;
}

RunState from_metadata(const checkpoint::Metadata& metadata, const config::Config& config,
                       const data::Datasets& data, const TrainingPlan& plan,
                       const std::string& path, const Path& run) {
  const Entries entries(metadata, path);
  RunState state;
  state.step = state.recorded_step = read_step(metadata, path);
  if (entries.has(kRecordedStep)) {
    state.recorded_step = std::min(entries.count(kRecordedStep), state.step);
  }
  for (const char* key : {kTrainingData, kFirstData}) {
    if (const std::string* data_then = entries.find(key)) state.first_data = *data_then;
  }
  std::string problems;
  const auto compare = [&](const std::string& key, const std::string& now) {
    const std::string* found = entries.find(key);
    // Checkpoints without the key were written before it could be chosen.
    const std::string was = found != nullptr ? *found : key == keys::kShard ? "sample" : "";
    if (was == now || (key == kTrainingData && state.first_data == now)) return;
    problems += key == kTrainingData ? "\n  " + changed_data(was, now)
                                     : concat("\n  ", key, " was ", was, ", is ", now);
  };
  for (const auto& [key, value] : identity(data, plan)) compare(key, value);
  if (const auto was = checkpoint::read_classes(metadata); was != data.classes) {
    problems +=
        concat("\n  classes were ", data::list_classes(was), "; are ",
               data::list_classes(data.classes), describe_class_difference(was, data.classes));
  }
  const std::vector<std::string> changes = changes_since(metadata, config).errors;
  for (const std::string& change : changes) problems += "\n  " + change;
  if (!problems.empty()) {
    const bool fits = checkpoint::read_classes(metadata).size() == data.classes.size() &&
                      std::ranges::none_of(changes, changes_shapes);
    const std::string advice = run.empty() ? "."
                               : fits      ? ", or " + new_run_advice(run)
                                      : ", or start a new run: --run-dir NEW without --resume.";
    throw DataError(path, Controls::kLines, "cannot be resumed: the run would not go on as it was",
                    problems, "\nRestore these values", advice);
  }
  const std::optional<config::Config> before = read_config(metadata);
  const bool keeps_best = !before || before->run.best == config.run.best;
  if (entries.has("best") && keeps_best) {
    state.best = entries.number<double>("best");
    state.best_step = entries.count("best_step");
  }
  if (entries.has("loss_scale")) {
    state.loss_scale = {static_cast<float>(entries.number<double>("loss_scale")),
                        entries.number<std::uint32_t>("loss_scale_good_updates")};
  }
  if (std::holds_alternative<config::ReduceOnPlateauSchedule>(config.schedule.kind)) {
    state.plateau = read_plateau(entries);
    if (before && plateau_metric(*before) != plateau_metric(config)) {
      const double factor = state.plateau->factor;
      state.plateau.emplace().factor = factor;
    }
  }
  if (entries.has("restored_step")) state.restored_step = entries.count("restored_step");
  state.evaluation_due = metadata.contains("evaluation_due");
  // A user who removes early_stop or stop_at from the config wants the run to continue.
  const bool may_stop = config.train.early_stop || config.train.stop_at;
  state.stopped = metadata.contains("stopped") && may_stop;
  for (const auto& [key, text] : metadata) {
    if (key.starts_with(kHookPrefix)) state.hooks[key.substr(kHookPrefix.size())] = text;
  }
  if (before) drop_other_metrics(*before, config, state);
  return state;
}

Changes changes_since(const checkpoint::Metadata& metadata, const config::Config& config) {
  Changes changes;
  const std::optional<config::Config> before = read_config(metadata);
  if (!before) return changes;
  for (const config::Change& change : config::resume_changes(*before, config)) {
    const bool is_error = change.severity == config::Change::Severity::kError;
    (is_error ? changes.errors : changes.warnings)
        .push_back(concat(change.key, " was ", change.before, ", is ", change.now));
  }
  return changes;
}

std::int64_t read_step(const checkpoint::Metadata& metadata, const std::string& path) {
  return Entries(metadata, path).count("step");
}

std::size_t read_stage(const checkpoint::Metadata& metadata, const std::string& path) {
  const Entries entries(metadata, path);
  return entries.has("freeze_stage") ? entries.number<std::size_t>("freeze_stage") : 0;
}

RunLength read_length(const checkpoint::Metadata& metadata, const std::string& path) {
  const Entries entries(metadata, path);
  return {entries.count("total_steps"), entries.count("steps_per_epoch", 1),
          metadata.contains("stopped")};
}

std::optional<Shape> read_image_shape(const checkpoint::Metadata& metadata,
                                      const std::string& path) {
  constexpr std::int64_t kMaxSize = 1 << 20;  // of a dimension, so that products do not overflow
  const Entries entries(metadata, path);
  const std::string* text = entries.find("image_shape");
  if (text == nullptr) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const std::string& word : split_text(*text, ' ')) {
    const std::optional<std::int64_t> dim = parse_integer(word);
    if (dim && *dim > 0 && *dim <= kMaxSize) dims.push_back(*dim);
  }
  if (dims.size() != 3 || join_dims(Shape(dims)) != *text) {
    entries.fail("image_shape", "the height, width and number of channels of an image");
  }
  return Shape(dims);
}

std::optional<DType> read_image_type(const checkpoint::Metadata& metadata,
                                     const std::string& path) {
  const Entries entries(metadata, path);
  const std::string* text = entries.find("image_type");
  if (text == nullptr) return std::nullopt;
  for (const DType type : {DType::kUInt8, DType::kFloat32}) {
    if (*text == to_string(type)) return type;
  }
  entries.fail("image_type", "uint8 or float32");
}

std::optional<bool> read_label_is_index(const checkpoint::Metadata& metadata,
                                        const std::string& path) {
  const Entries entries(metadata, path);
  const std::string* text = entries.find("label_is_index");
  if (text == nullptr) return std::nullopt;
  if (*text != "true" && *text != "false") entries.fail("label_is_index", "true or false");
  return *text == "true";
}

}  // namespace trainer::train
