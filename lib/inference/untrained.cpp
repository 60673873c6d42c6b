#include "inference/untrained.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "config/pretrained.h"
#include "data/splits.h"
#include "model/import.h"
#include "train/open.h"
#include "train/run_dir.h"

namespace trainer::inference {
namespace {

// Of predictions, where the config leaves the size of a batch to training.
constexpr std::int64_t kBatch = 32;

config::Config load_config(const std::string& path, const std::string& weights,
                           std::vector<config::Override> overrides,
                           const config::Environment& environment) {
  const bool of_backbone = weights == config::kImagenet;
  if (of_backbone && !config::load_config(path, overrides, environment).config.model.backbone) {
    throw ConfigError({}, concat("--weights imagenet: ", path,
                                 " has no model.backbone, which alone has such weights; give a "
                                 "file or a run folder"));
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
  for (const char* split : {"train", "validation", "test"}) {
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
  const graph::Graph model = model::build_model(config.model, config.data, sample, config.seed);
  const Shape& logits = model[model.outputs[0]].shape;
  const std::int64_t outputs = logits[logits.rank() - 1];
  const bool one_logit = config.model.loss == config::LossKind::kBinaryCrossEntropy;
  return one_logit && outputs == 1 ? 2 : outputs;
}

// As the config alone describes the samples.
void take_samples_of_config(Trained& trained, const std::string& reason) {
  const config::Config& config = trained.config;
  std::optional<model::SampleSpec> sample = train::expected_sample(config);
  if (!sample) {
    throw DataError(trained.path,
                    concat("does not say how large its images are, and its data cannot be opened "
                           "(",
                           reason, "); give data.resize or model.input"));
  }
  trained.classes = config.data.classes;
  if (sample->classes < 1) sample->classes = count_classes(config, *sample);
  for (auto i = static_cast<std::int64_t>(trained.classes.size()); i < sample->classes; ++i) {
    trained.classes.push_back(std::to_string(i));
  }
  trained.image_shape = sample->image;
  trained.image_type = sample->image_type;
  trained.label_is_index = sample->label_is_index;
  if (!config.data.classes.empty()) return;
  trained.warn(Notice::note(concat(
      "classes are numbers, as the config names none and its data cannot be opened: ", reason)));
}

// Whether the config alone says all that its data would.
bool describes_samples(const config::Data& data) {
  return config::is_image_format(data.format) && !data.classes.empty() && data.resize.size() == 2;
}

void take_samples(Trained& trained) {
  std::string reason;
  if (describes_samples(trained.config.data)) return take_samples_of_config(trained, reason);
  const std::optional<data::Datasets> data = open_any_split(trained.config, reason);
  if (!data) return take_samples_of_config(trained, reason);
  trained.classes = data->classes;
  trained.image_shape = data->image_shape;
  trained.image_type = data->image_type;
  trained.label_is_index = data->label_is_index;
  if (!data->train) return;
  const Notice notice = train::settle_normalize(trained.config, *data);
  if (!notice.text.empty()) trained.warn(notice);
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
    const bool is_initial =
        std::any_of(layer.parameters.begin(), layer.parameters.end(),
                    [&](graph::ValueId id) { return !known.contains(model[id].name); });
    if (is_initial) layers.push_back(layer.name);
  }
  return layers;
}

void tell_of_weights(const Trained& trained, const graph::Graph& model,
                     const model::ImportReport& report) {
  constexpr std::size_t kMostNames = 6;
  std::vector<std::string> layers = initial_layers(model, report.loaded);
  if (report.loaded.empty()) {
    return trained.warn(Notice::note(concat(
        trained.path, ": untrained: the whole model is as initialised (seed ", trained.config.seed,
        "), so its predictions mean nothing. Give weights with --weights, or name the run that "
        "`trainer train ",
        trained.path, "` makes: ", train::run_folder(trained.config).string())));
  }
  for (const Notice& notice : report.notices()) trained.warn(notice);
  if (layers.empty()) return;
  const std::size_t count = layers.size();
  layers.resize(std::min(count, kMostNames));
  const std::string more = count > kMostNames ? concat(" and ", count - kMostNames, " more") : "";
  trained.warn(Notice::note(
      concat(trained.path, ": untrained: ", count == 1 ? "layer " : "layers ", join(layers), more,
             count == 1 ? " is" : " are", " as initialised (seed ", trained.config.seed,
             "), so the predictions mean nothing yet; weights are those of ", report.path)));
}

}  // namespace

bool is_config(const std::string& path) {
  const std::string ending = Path(path).extension().string();
  return (ending == ".yaml" || ending == ".yml") && std::filesystem::is_regular_file(path);
}

Trained open_untrained(const std::string& path, const std::string& weights,
                       const std::vector<config::Override>& overrides,
                       const config::Environment& environment,
                       const std::function<void(const Notice&)>& warn) {
  Trained trained;
  trained.path = path;
  trained.warn = warn;
  trained.config = load_config(path, weights, without_training_keys(overrides), environment);
  model::check_weights_exist(trained.config.model, environment);
  take_samples(trained);
  const graph::Graph model = model::build_model(trained.config.model, trained.config.data,
                                                sample_spec(trained), trained.config.seed);
  model::Import import = model::import_weights(model, trained.config.model);
  trained.file.tensors = initial_tensors(model, trained.config, std::move(import.tensors));
  tell_of_weights(trained, model, import.report);
  return trained;
}

}  // namespace trainer::inference
