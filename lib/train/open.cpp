#include "train/open.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/process/memory.h"
#include "base/text.h"
#include "compile/compile.h"
#include "data/samples/mix.h"
#include "data/samples/weights.h"
#include "engine/compile_options.h"
#include "engine/evaluate.h"
#include "model/files/import.h"
#include "model/last_layer.h"
#include "optim/optim.h"
#include "train/check_metrics.h"
#include "train/class_weight.h"
#include "train/feature_plan.h"
#include "train/schedule/stages.h"
#include "train/target_weight.h"

namespace trainer::train {
namespace {

// Returns the shape of the images in the config; empty if it follows from the data alone.
std::vector<std::int64_t> expected_image(const config::Config& config) {
  const config::Data& data = config.data;
  if (data.format == config::DataFormat::kSynthetic) return data.synthetic.shape;
  if (config::is_image_format(data.format) && data.resize.size() == 2) {
    return {data.resize[0], data.resize[1], data.channels.value_or(3)};
  }
  if (data.format == config::DataFormat::kDigits) return {28, 28, 1};
  if (data.format == config::DataFormat::kCifar) return {32, 32, 3};
  return config.model.input;
}

std::int64_t expected_classes(const config::Data& data) {
  const auto named = std::ssize(data.classes);
  if (data.format == config::DataFormat::kSynthetic) return std::max(data.synthetic.classes, named);
  const std::int64_t given = data.num_classes.value_or(named);
  if (data.format == config::DataFormat::kDigits && given == 0) return 10;
  return given;
}

// Rejects a single class, because the softmax of one number is always 1.
void check_classes(const config::Config& config, std::int64_t classes, bool label_is_index) {
  if (config.model.loss != LossKind::kSoftmaxCrossEntropy || !label_is_index || classes != 1) {
    return;
  }
  throw ConfigError(config.data.loc, "data: there is one class only",
                    config.data.classes.empty() ? "" : " ('" + config.data.classes[0] + "')",
                    ", so that softmax_cross_entropy has nothing to learn; give samples of two "
                    "classes or more, or check data.classes, data.num_classes and the labels");
}

// Checks what the engine and the cache of features ask of the models of all stages: names of layers
// in the keys of the optimizer, no statistics over the batch with ordered sums, and frozen layers
// at the start if the config demands features. Throws ConfigError with the message that training
// gives.
void check_training_graphs(const config::Config& config, const std::vector<graph::Graph>& stages) {
  optim::apply_parameter_options(stages.front(), config.optimizer);
  const bool is_ordered = config.parallel.reduction == config::Parallel::Reduction::kOrdered;
  const bool has_features = demands_features(config.train.cache_features);
  if (!is_ordered && !has_features) return;
  compile::Options options;
  options.update = optim::update_spec(config.optimizer).update;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const compile::FrozenSplit split = compile::split_frozen(stages[stage], options);
    const bool is_split = split.reason.empty();
    if (is_ordered) {
      const graph::Graph& rest = is_split ? split.suffix : stages[stage];
      engine::check_no_batch_statistics(compile::training_graph(rest, options));
    }
    if (has_features && stage == 0 && !is_split) reject_features(config, split.reason);
  }
}

// Checks that softmax_cross_entropy has one integer label per sample, or shares that sum to 1.
void check_labels(const config::Config& config, const data::Datasets& data) {
  if (config.model.loss != LossKind::kSoftmaxCrossEntropy || data.label_is_index) return;
  const std::string& labels = config.data.train.labels;
  const std::string& file =
      config.data.train.path.empty() ? config.data.path : config.data.train.path;
  if (data.train->spec().label_width > 1) {
    if (engine::has_classes(*data.train, LossKind::kSoftmaxCrossEntropy)) return;
    throw DataError(
        file.empty() ? labels : file,
        "its labels are rows that do not sum to 1, such as several classes of one "
        "sample; softmax_cross_entropy takes one class per sample, or shares that sum "
        "to 1. Give model.loss: binary_cross_entropy, which takes each class for itself");
  }
  throw DataError(
      file.empty() ? labels : file,
      "its labels are floating-point numbers, one per sample; softmax_cross_entropy takes whole "
      "numbers of an integer type, the classes from 0 on (NumPy: y.astype('int64')), or one number "
      "per class. For targets that are not classes give model.loss: mean_squared_error");
}

// Rejects a list whose labels are numbers to be estimated, each of which would be a class.
void reject_numbers(const config::Config& config, const data::Datasets& data) {
  const bool is_list = config.data.format == config::DataFormat::kCsv;
  if (!is_list || config.model.loss != LossKind::kMeanSquaredError || !data.label_is_index) return;
  const auto is_number = [](const std::string& name) { return parse_real(name).has_value(); };
  const bool are_few = 2 * data.num_classes <= data.train->size();
  if (are_few || !std::ranges::all_of(data.classes, is_number)) return;
  throw ConfigError(
      config.data.loc, "data: the labels are ", data.num_classes, " numbers, from ",
      data.classes.front(), " to ", data.classes.back(),
      "; a list has classes, not numbers to estimate: give images and numbers as arrays "
      "(data.format: npz with labels of float32)");
}

void reject_pos_weight(const config::Config& config, const data::Datasets& data) {
  if (!config.train.pos_weight) return;
  throw ConfigError(config.train.pos_weight->loc,
                    "train.pos_weight works with several labels per image only, and ",
                    describe_label_kind(data), "; give train.class_weight");
}

// Checks for validation samples after the data is opened, because the splits of a folder data.path
// follow from its files.
void check_stops(const config::Config& config, const data::Datasets& data) {
  if (data.validation) return;
  const auto reject = [](const SourceLoc& loc, const char* key) {
    throw ConfigError(loc, key,
                      ": needs validation samples, but data.path holds none: give "
                      "data.validation or data.validation_split");
  };
  if (config.train.early_stop) reject(config.train.early_stop->loc, "train.early_stop");
  if (config.train.stop_at) reject(config.train.stop_at->loc, "train.stop_at");
  if (std::holds_alternative<config::ReduceOnPlateauSchedule>(config.schedule.kind)) {
    reject(config.schedule.loc, "schedule.reduce_on_plateau");
  }
}

struct Range {
  float low = 0, high = 0;
};

// Returns the range of the numbers of up to 1000 images, spread over the set.
Range find_range(const data::Dataset& dataset) {
  constexpr std::int64_t kImages = 1000;
  std::vector<float> image(dataset.spec().image_shape.elements());
  std::vector<float> label(dataset.spec().label_width);
  Range range{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
  const std::int64_t stride = std::max<std::int64_t>(1, dataset.size() / kImages);
  for (std::int64_t i = 0; i < dataset.size(); i += stride) {
    dataset.get(i, image.data(), label.data());
    for (const float value : image) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  return range;
}

// Returns a line if all training images are bytes of 0 and 1, which become 1 / 255; "" otherwise.
std::string describe_small_bytes(const config::Data& config, const data::Dataset& train) {
  if (!config::holds_arrays(config.format) || train.spec().image_type != DType::kUInt8) return "";
  std::vector<std::uint8_t> image(train.spec().image_bytes());
  std::vector<std::byte> label(train.spec().label_bytes());
  for (std::int64_t i = 0; i < train.size(); ++i) {
    train.get(i, image.data(), label.data());
    if (std::ranges::any_of(image, [](std::uint8_t value) { return value > 1; })) return "";
  }
  return "data.normalize is left out: the training images are bytes of which the largest is 1, and "
         "bytes are divided by 255; if 1 is white, give data.normalize: {scale: 1}";
}

}  // namespace

std::optional<model::SampleSpec> expected_sample(const config::Config& config) {
  const std::vector<std::int64_t> image = expected_image(config);
  if (image.size() != 3) return std::nullopt;
  model::SampleSpec sample{Shape(image), DType::kUInt8, true, expected_classes(config.data)};
  const config::Data& data = config.data;
  if (data.columns_are_labels && data.csv.label_separator.empty() && sample.classes == 2) {
    // A list decides whether it has two columns of labels or a column of classes.
    if (config::is_image_format(data.format)) return std::nullopt;
    return sample;
  }
  if (data.may_have_several_labels()) sample.label_is_index = false;
  return sample;
}

ModelCheck check_model(const config::Config& config) {
  check_weighted_classes(config);
  const std::optional<model::SampleSpec> sample = expected_sample(config);
  if (sample) check_classes(config, sample->classes, sample->label_is_index);
  const bool needs_classes =
      config.model.dense_classifier.has_value() || (sample && !sample->label_is_index);
  if (!sample || (needs_classes && sample->classes < 1)) {
    model::check_last_layer(config.model);
    model::check_weights({}, config.model);
    return ModelCheck::kNoShape;
  }
  const std::size_t later = config.model.backbone ? config.model.backbone->unfreeze.size() : 0;
  std::vector<std::int64_t> first(later + 1);
  std::iota(first.begin(), first.end(), 0);  // the layers do not depend on the steps
  const std::vector<graph::Graph> stages = stage_models(config, *sample, first);
  check_trainable(config, stages.front());
  check_training_graphs(config, stages);
  if (sample->classes < 1) {
    const bool is_open = has_weights_of_classes(config.model);
    model::check_weights(is_open ? std::nullopt : std::optional(stages.front()), config.model);
    return ModelCheck::kNoClasses;
  }
  model::check_weights(stages.front(), config.model);
  return ModelCheck::kWhole;
}

bool has_weights_of_classes(const config::Model& model) {
  return !model.weights.empty() || !model.backbone || model.backbone->include_top;
}

void check_trainable(const config::Config& config, const graph::Graph& model) {
  if (config.model.backbone && !config.model.backbone->unfreeze.empty()) return;
  const auto has_weights = [](const graph::LayerInfo& layer) {
    return layer.trainable && !layer.parameters.empty();
  };
  if (std::ranges::any_of(model.layers, has_weights)) return;
  throw ConfigError(config.model.loc,
                    "model: has nothing to train: none of its layers has weights that are not "
                    "frozen; add a dense or conv layer, or freeze less (model.backbone.freeze)");
}

void check_batch(const config::Config& config, const model::SampleSpec& sample) {
  const auto bytes = static_cast<double>(sample.image.elements()) *
                     static_cast<double>(size_of(sample.image_type)) *
                     static_cast<double>(config.parallel.replicas);
  const auto memory = static_cast<double>(total_memory());
  if (memory == 0) return;  // the system does not report it
  const bool is_known = !config.train.batch_size.is_automatic();
  if (config.data.prefetch && is_known) {
    const double ahead = bytes * static_cast<double>(config.train.batch_size) *
                         static_cast<double>(*config.data.prefetch);
    if (ahead > memory) {
      throw ConfigError(config.data.loc, "data.prefetch: the images of ", *config.data.prefetch,
                        " batches take ", ahead / 1e9, " GB, but this machine has ", memory / 1e9,
                        " GB of memory; lower it");
    }
  }
  const auto check = [&](const SourceLoc& loc, const char* key, std::int64_t samples) {
    const double batch = bytes * static_cast<double>(samples);
    if (batch <= memory) return;
    throw ConfigError(loc, key, ": the images of a batch of ", samples, " samples for each of ",
                      config.parallel.replicas, " replicas take ", batch / 1e9,
                      " GB, but this machine has ", memory / 1e9, " GB of memory; take at most ",
                      static_cast<std::int64_t>(memory / bytes));
  };
  if (is_known) check(config.train.loc, "train.batch_size", config.train.batch_size);
  if (config.evaluate.batch_size) {
    check(config.train.loc, "evaluate.batch_size", *config.evaluate.batch_size);
  }
}

Notice resolve_normalize(config::Config& config, const data::Datasets& data) {
  config.data.range = data.range;
  // Images with several labels are bytes, so that at most one of both notices is given.
  if (Notice best = resolve_best(config, data); !best.text.empty()) return best;
  constexpr float kMaxExpected = 20;  // larger numbers are seldom meant as input of a model
  if (config.data.normalize || config.data.preprocess) return "";
  if (data.image_type != DType::kFloat32) {
    return Notice::note(describe_small_bytes(config.data, *data.train));
  }
  config.data.normalize = config::Normalize{1, {}, {}, false};
  const Range range = find_range(*data.train);
  const bool large = std::max(-range.low, range.high) > kMaxExpected;
  const std::string text = concat(
      "data.normalize is left out: images of float numbers are taken as they are (scale: 1), here "
      "from ",
      range.low, " to ", range.high,
      large ? "; give data.normalize, e.g. {scale: 0.00392157} for 0 to 255" : "");
  return large ? Notice(text) : Notice::note(text);
}

data::Datasets open_training_data(const config::Config& config, std::optional<Split> only,
                                  const Progress& progress) {
  const bool whole = !only;
  data::Datasets data = data::open_datasets(config.data, config.seed, only, progress);
  if (!data.train) throw ConfigError(config.data.loc, "data.train: is missing; training needs it");
  if (whole) check_stops(config, data);
  check_labels(config, data);
  check_classes(config, data.num_classes, data.label_is_index);
  reject_numbers(config, data);
  check_batch(config, sample_spec(data));
  if (data.train->spec().is_multi_label()) {
    data.target_weight = target_weights(config, data);
  } else {
    reject_pos_weight(config, data);
    data.class_weight = class_weights(config, data);
  }
  check_metrics(config, data);
  const bool mixes = config::mixes_samples(config.data);
  const std::int64_t width =
      model::count_outputs(config.model.loss, data.label_is_index, data.num_classes);
  if (data.train->spec().has_weights) {
    data.train = data::weigh_samples(std::move(data.train), width);
    data.sample_weight = true;
  }
  if (mixes) {
    data.train = data::mix_samples(std::move(data.train), config.data.train.augment, width,
                                   config.seed, config.data.repeats);
  }
  return data;
}

model::SampleSpec sample_spec(const data::Datasets& data) {
  return {data.image_shape,  data.image_type,    data.label_is_index, data.num_classes,
          data.class_weight, data.sample_weight, data.target_weight};
}

}  // namespace trainer::train
