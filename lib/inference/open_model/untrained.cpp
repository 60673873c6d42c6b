#include "inference/open_model/untrained.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/process/shell.h"
#include "base/text.h"
#include "config/pretrained.h"
#include "model/files/import.h"
#include "model/initialise.h"
#include "train/class_order.h"
#include "train/open.h"
#include "train/run_dir.h"

namespace trainer::inference {
namespace {

// The batch size of predictions, if the config leaves it to training.
constexpr std::int64_t kBatch = 32;

config::Config load_config(const std::string& path, const std::string& weights,
                           std::vector<config::Override> overrides,
                           const config::Environment& environment) {
  if (!config::has_section(path, "train", environment)) {
    // A model that is used as it is needs no training.
    overrides.insert(overrides.begin(), {{"train.max_steps", "1", "predict"},
                                         {"train.batch_size", std::to_string(kBatch), "predict"}});
  }
  const bool of_backbone = weights == config::kImagenet;
  if (of_backbone && !config::load_config(path, overrides, environment).config.model.backbone) {
    throw ConfigError({}, "--weights imagenet: ", path,
                      " has no model.backbone, which alone has such weights; give a "
                      "file or a run folder");
  }
  if (!weights.empty()) {
    overrides.push_back(
        {of_backbone ? "model.backbone.weights" : "model.weights", weights, "--weights"});
  }
  config::Config config = config::load_config(path, overrides, environment).config;
  if (of_backbone) config.model.weights.clear();  // would come before those of the backbone
  if (config.train.batch_size.is_automatic()) config.train.batch_size = kBatch;
  return config;
}

// The first split that can be opened; none, with the reason, when none can.
std::optional<data::Datasets> open_any_split(const config::Config& config, std::string& reason) {
  for (const Split split : kSplits) {
    try {
      return data::open_datasets(config.data, config.seed, split);
    } catch (const DataError& error) {
      if (reason.empty()) reason = error.what();
    }
  }
  return std::nullopt;
}

// How many classes a model has whose config names none.
std::int64_t count_classes(const config::Config& config, const model::SampleSpec& sample) {
  const graph::Graph model = model::build_model(config, sample);
  const Shape& logits = model[model.outputs[0]].shape;
  const std::int64_t outputs = logits[logits.rank() - 1];
  const bool one_logit =
      config.model.loss == LossKind::kBinaryCrossEntropy && sample.label_is_index;
  return one_logit && outputs == 1 ? 2 : outputs;
}

// Takes the samples that the config alone describes.
void take_samples_of_config(OpenedModel& opened, const std::string& reason) {
  const config::Config& config = opened.config;
  std::optional<model::SampleSpec> sample = train::expected_sample(config);
  if (!sample) {
    throw DataError(opened.path, "has no size of its images, and its data cannot be opened (",
                    reason, "); give data.resize or model.input");
  }
  opened.classes = config.data.classes;
  if (sample->classes < 1) sample->classes = count_classes(config, *sample);
  for (auto i = std::ssize(opened.classes); i < sample->classes; ++i) {
    opened.classes.push_back(std::to_string(i));
  }
  opened.image_shape = sample->image;
  opened.image_type = sample->image_type;
  opened.label_is_index = sample->label_is_index;
  if (!config.data.classes.empty()) return;
  opened.warn(Notice::note(concat(
      "classes are numbers, as the config names none and its data cannot be opened: ", reason)));
}

// Returns true if the config alone describes what its data would.
bool describes_samples(const config::Data& data) {
  const bool needs_range = data.range && data.range->is_automatic;
  return config::is_image_format(data.format) && !data.classes.empty() && data.resize.size() == 2 &&
         !needs_range && !data.columns_are_labels;
}

void take_samples(OpenedModel& opened) {
  std::string reason;
  if (describes_samples(opened.config.data)) return take_samples_of_config(opened, reason);
  const std::optional<data::Datasets> data = open_any_split(opened.config, reason);
  if (!data) return take_samples_of_config(opened, reason);
  opened.classes = data->classes;
  opened.image_shape = data->image_shape;
  opened.image_type = data->image_type;
  opened.label_is_index = data->label_is_index;
  opened.config.data.range = data->range;
  if (!data->train) return;
  const Notice notice = train::resolve_normalize(opened.config, *data);
  if (!notice.text.empty()) opened.warn(notice);
}

// The values that a fresh run starts from.
std::vector<checkpoint::Tensor> initial_tensors(const graph::Graph& model,
                                                const config::Config& config,
                                                std::vector<checkpoint::Tensor> imported) {
  std::map<std::string, std::vector<float>*> given;
  for (checkpoint::Tensor& tensor : imported) given[tensor.name] = &tensor.values;
  std::vector<checkpoint::Tensor> tensors;
  for (const graph::Value& value : model.values) {
    if (!graph::is_persistent(value.role)) continue;
    const auto found = given.find(value.name);
    checkpoint::Tensor tensor{value.name, value.shape,
                              found == given.end() ? model::initial_values(value, config.seed)
                                                   : std::move(*found->second)};
    // An average starts as a copy of what it averages.
    if (config.optimizer.ema && value.role == graph::Role::kParameter) {
      tensors.push_back({value.name + "/average", value.shape, tensor.values});
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The layers that have parameters of which the weights set none or not all.
std::vector<std::string> initial_layers(const graph::Graph& model,
                                        const std::vector<std::string>& loaded) {
  const std::set<std::string> known(loaded.begin(), loaded.end());
  std::vector<std::string> layers;
  for (const graph::LayerInfo& layer : model.layers) {
    const bool is_initial = std::ranges::any_of(
        layer.parameters, [&](graph::ValueId id) { return !known.contains(model[id].name); });
    if (is_initial) layers.push_back(layer.name);
  }
  return layers;
}

// Reports what was loaded from the file, and which layers have their initial values.
void report_weights(OpenedModel& opened, const graph::Graph& model,
                    const model::ImportReport& report) {
  constexpr std::size_t kMaxNames = 6;
  const std::string seed = concat(" as initialised (seed ", opened.config.seed, ")");
  for (const Notice& notice : report.notices()) opened.warn(notice);
  const std::vector<std::string> layers = initial_layers(model, report.loaded);
  opened.has_initial_layers = !layers.empty();
  if (report.path.empty()) {
    return opened.warn(Notice::note(
        concat(opened.path, ": untrained: the whole model is", seed,
               ". Give weights with --weights, or name the run that `trainer train ",
               shell_word(opened.path), "` makes: ", train::run_folder(opened.config).string())));
  }
  if (layers.empty()) return;
  opened.warn(Notice::note(
      concat(opened.path, ": untrained: ", layers.size() == 1 ? "layer " : "layers ",
             join_first(layers, kMaxNames), layers.size() == 1 ? " is" : " are", seed)));
}

}  // namespace

OpenedModel open_untrained(const std::string& path, const std::string& weights,
                           const OpenOptions& options) {
  OpenedModel opened;
  opened.path = path;
  opened.warn = options.warn;
  opened.config =
      load_config(path, weights, without_training_keys(options.overrides), options.environment);
  opened.platform = backend::read_platform(options.environment);
  model::check_weights_exist(opened.config.model, options.environment);
  take_samples(opened);
  const graph::Graph model = model::build_model(opened.config, sample_spec(opened));
  model::Import import = model::import_weights(model, opened.config.model);
  opened.file.tensors = initial_tensors(model, opened.config, std::move(import.tensors));
  report_weights(opened, model, import.report);
  if (opened.label_is_index.value_or(true) || opened.is_multi_label()) {
    const Notice order = train::check_class_order(import.report, opened.classes);
    if (!order.text.empty()) opened.warn(order);
  }
  return opened;
}

}  // namespace trainer::inference
