#include <algorithm>
#include <set>

#include "config/decode.h"
#include "config/values.h"

namespace trainer::config {
namespace {

class Checker {
 public:
  Checker(const Decoded& decoded, std::vector<Diagnostic>& diagnostics)
      : decoded_(decoded), config_(decoded.config), diagnostics_(diagnostics) {}

  void run() {
    check_name();
    check_model();
    check_data();
    check_training();
    check_run();
  }

 private:
  // At the value of `path`, or at the nearest key above it that the file gives.
  // What hangs on a value that could not be taken is not known, and not reported.
  void report(const std::string& path, const std::string& message) {
    const auto broken = decoded_.broken.lower_bound(path);
    if (broken != decoded_.broken.end() && broken->starts_with(path)) return;
    SourceLoc loc;
    for (std::string above = path; !above.empty();
         above.resize(std::min(above.find_last_of(".["), above.size() - 1))) {
      const auto origin = decoded_.origins.find(above);
      const auto place = decoded_.places.find(above);
      if (above == path && origin != decoded_.origins.end()) {
        loc = origin->second.loc;
      } else if (place != decoded_.places.end()) {
        loc = place->second;
      }
      if (loc.known()) break;
      if (above.find_last_of(".[") == std::string::npos) break;
    }
    diagnostics_.push_back({loc, path + ": " + message});
  }
  bool given(const std::string& path) const {
    const auto found = decoded_.origins.find(path);
    return found != decoded_.origins.end();
  }

  void check_name() {
    if (config_.name.find('/') != std::string::npos) {
      report("name", "must not contain '/': it names a folder below runs/; use run.dir for a path");
    }
  }

  // ---- Model ----

  static std::string path_of(const char* list, const Layer& layer, std::size_t index) {
    static const char* const kKeys[] = {"conv",
                                        "depthwise_conv",
                                        "separable_conv",
                                        "max_pool",
                                        "average_pool",
                                        "global_average_pool",
                                        "global_max_pool",
                                        "dense",
                                        "flatten",
                                        "reshape",
                                        "dropout",
                                        "batch_norm",
                                        "activation",
                                        "relu",
                                        "zero_pad",
                                        "add",
                                        "concatenate"};
    static_assert(std::size(kKeys) == std::variant_size_v<LayerKind>);
    return concat("model.", list, '[', index, "].", kKeys[layer.kind.index()]);
  }

  void check_model() {
    const Model& model = config_.model;
    if (given("model.layers") && model.layers.empty() && !model.dense_classifier) {
      report("model.layers", "a model needs at least one layer");
    }
    if (model.label_smoothing > 0 && model.loss == LossKind::kMeanSquaredError) {
      report("model.label_smoothing",
             "works with softmax_cross_entropy and binary_cross_entropy only");
    }
    check_backbone();
    check_layers("layers", model.layers);
    check_layers("head", model.head);
  }

  void check_backbone() {
    const Model& model = config_.model;
    if (!model.backbone) {
      if (!model.head.empty())
        report("model.head", "needs model.backbone, whose features it takes");
      if (!model.allow_missing.empty() && model.weights.empty()) {
        report("model.allow_missing", "needs model.weights, a file with the tensors");
      }
      return;
    }
    const Backbone& backbone = *model.backbone;
    if (!model.weights.empty()) {
      report("model.weights",
             "belongs to layers and dense_classifier; give model.backbone.weights");
    }
    const bool named = !decoded_.broken.contains("model.backbone.name");
    if (named && backbone.alpha != 1 && backbone.name != Backbone::Name::kMobileNetV2) {
      report("model.backbone.alpha", "belongs to mobilenet_v2 only");
    }
    if (backbone.include_top && backbone.pooling != Backbone::Pooling::kNone) {
      report("model.backbone.pooling",
             "cannot be given beside include_top: true, which has its own");
    }
    if (!backbone.include_top && model.head.empty()) {
      report("model.backbone",
             "needs model.head, the layers that make logits of its features; e.g. "
             "head: [global_average_pool, {dense: {units: 4}}]");
    }
    if (!backbone.allow_missing.empty() && backbone.weights.empty()) {
      report("model.backbone.allow_missing", "needs weights, a file with the tensors");
    }
    check_unfreeze(backbone);
  }

  // Steps and epochs cannot be compared without the data.
  void check_unfreeze(const Backbone& backbone) {
    for (std::size_t i = 0; i < backbone.unfreeze.size(); ++i) {
      const std::string path = concat("model.backbone.unfreeze[", i, "].at");
      const Duration& at = backbone.unfreeze[i].at;
      if (decoded_.broken.contains(path)) continue;
      if (at.count <= 0) report(path, "must lie after the start; what is frozen there is `freeze`");
      if (i == 0) continue;
      const Duration& before = backbone.unfreeze[i - 1].at;
      if (at.unit == before.unit && at.count <= before.count) {
        report(path, concat("is ", to_string(at), ", not after the ", to_string(before),
                            " of the entry before; list them in the order in which they come"));
      }
    }
  }

  void check_layers(const char* list, const std::vector<Layer>& layers) {
    std::vector<std::string> later;
    for (const Layer& layer : layers) later.push_back(layer.name);
    std::vector<std::string> known{"input"};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      check_layer(layers[i], path_of(list, layers[i], i), known, later);
    }
  }

  void check_layer(const Layer& layer, const std::string& path, std::vector<std::string>& known,
                   const std::vector<std::string>& all) {
    const bool joins = std::holds_alternative<AddLayer>(layer.kind) ||
                       std::holds_alternative<ConcatenateLayer>(layer.kind);
    if (joins && layer.inputs.size() < 2) {
      report(path, "needs 'inputs' with the names of two layers or more");
    }
    if (!joins && layer.inputs.size() > 1) {
      report(path + ".inputs", "takes one input; join several with add or concatenate first");
    }
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const std::string& input = layer.inputs[i];
      // The names of a backbone's layers are known to the model alone.
      if (config_.model.backbone) break;
      if (std::find(known.begin(), known.end(), input) != known.end()) continue;
      const bool later = !input.empty() && std::find(all.begin(), all.end(), input) != all.end();
      report(concat(path, ".inputs[", i, ']'),
             later ? "'" + input + "' is not before this layer; inputs name earlier layers"
                   : unknown("layer", input, "Named before it", known));
    }
    if (!layer.name.empty()) {
      if (std::find(known.begin(), known.end(), layer.name) != known.end()) {
        report(path + ".name", layer.name == "input"
                                   ? "'input' is the name of the image"
                                   : "another layer is named '" + layer.name + "'");
      } else {
        known.push_back(layer.name);
      }
    }
    check_kind(layer, path);
  }

  void check_kind(const Layer& layer, const std::string& path) {
    if (const auto* conv = std::get_if<ConvLayer>(&layer.kind)) {
      if (conv->filters % conv->groups != 0) {
        report(path + ".groups",
               concat("filters, ", conv->filters, ", is not a multiple of groups, ", conv->groups));
      }
    } else if (const auto* reshape = std::get_if<ReshapeLayer>(&layer.kind)) {
      const auto& shape = reshape->target_shape;
      if (std::count(shape.begin(), shape.end(), -1) > 1) {
        report(path + ".target_shape", "at most one entry may be -1");
      }
      if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
        report(path + ".target_shape", "an entry is a size of at least 1, or -1");
      }
    } else if (const auto* relu = std::get_if<ReluLayer>(&layer.kind)) {
      if (relu->max_value && *relu->max_value != 6) {
        report(path + ".max_value", "must be 6, or left out for no limit");
      }
    } else if (const auto* activation = std::get_if<ActivationLayer>(&layer.kind)) {
      const Activation function = activation->function;
      if (activation->alpha && function != Activation::kLeakyRelu && function != Activation::kElu) {
        report(path + ".alpha", "belongs to leaky_relu and elu only");
      }
    }
  }

  // ---- Data ----

  static bool located(const Split& split) {
    return !split.path.empty() || !split.images.empty() || !split.labels.empty() ||
           !split.glob.empty();
  }

  void check_split(const char* name, const Split& split) {
    const std::string path = std::string("data.") + name;
    if (split.images.empty() != split.labels.empty()) {
      const bool images = split.labels.empty();
      report(path, std::string("'") + (images ? "images" : "labels") + "' needs '" +
                       (images ? "labels" : "images") + "' beside it");
    }
    if (!split.glob.empty() && config_.data.format != DataFormat::kImageFolder) {
      report(path + ".glob", "belongs to format: image_folder only");
    }
    const bool single = !std::all_of(split.augment.begin(), split.augment.end(), is_mixing);
    if (single && !is_image_format(config_.data.format)) {
      report(path + ".augment",
             "works with the formats image_folder and csv only, but for mixup and cutmix");
    }
  }

  static bool ordered(const std::vector<double>& range) {
    return range.size() != 2 || range[0] <= range[1];
  }

  void check_augment() {
    for (const char* name : {"validation", "test"}) {
      const Split& split = name[0] == 'v' ? config_.data.validation : config_.data.test;
      if (!split.augment.empty()) {
        report(concat("data.", name, ".augment"),
               "only training images are changed at random; move it to data.train");
      }
    }
    const auto& list = config_.data.train.augment;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string path = concat("data.train.augment[", i, ']');
      if (is_mixing(list[i])) {
        check_mixing(path);
      } else if (i > 0 && is_mixing(list[i - 1])) {
        report(path, "mixup and cutmix stand last: they mix what the other changes have made");
      }
      if (const auto* crop = std::get_if<RandomResizedCrop>(&list[i].kind)) {
        if (i > 0) report(path, "random_resized_crop must stand first");
        if (!ordered(crop->scale) || !ordered(crop->ratio)) {
          report(path, "scale and ratio are [least, largest]");
        }
      } else if (const auto* erasing = std::get_if<RandomErasing>(&list[i].kind)) {
        if (!ordered(erasing->scale) || !ordered(erasing->ratio)) {
          report(path, "scale and ratio are [least, largest]");
        }
      }
    }
  }

  void check_mixing(const std::string& path) {
    if (config_.model.loss == LossKind::kMeanSquaredError) {
      report(path,
             "makes labels that are shares of classes, for softmax_cross_entropy and "
             "binary_cross_entropy only; model.loss is mean_squared_error");
    }
  }

  void check_images() {
    const Data& data = config_.data;
    if (!is_image_format(data.format)) {
      // The effective config names all keys, so that only a changed value tells a mistake.
      const std::pair<const char*, bool> changed[] = {
          {"resize", !data.resize.empty()},
          {"channels", data.channels.has_value()},
          {"interpolation", data.interpolation != Interpolation::kBilinear},
          {"fit", data.fit != Fit::kStretch},
          {"on_error", data.on_error != OnError::kFail},
          {"cache", data.cache != ImageCache::kNone}};
      for (const auto& [key, is_changed] : changed) {
        if (is_changed) {
          report(concat("data.", key), "works with the formats image_folder and csv only");
        }
      }
      return;
    }
    if (given("data") && data.path.empty() && !located(data.train)) {
      report("data", "says nowhere where the training samples are: give train: {path: ...}");
    }
    if (data.resize.empty() && config_.model.input.empty()) {
      report("data",
             "needs 'resize', [height, width]: image files differ in size; or give "
             "model.input");
    }
    if (data.channels && *data.channels == 2) report("data.channels", "must be 1 or 3");
    if (!data.channels && config_.model.input.size() == 3 && config_.model.input[2] != 1 &&
        config_.model.input[2] != 3) {
      report("model.input", "image files give 1 or 3 channels");
    }
    if (data.crop_fraction < 1 && data.fit != Fit::kCrop) {
      report("data.crop_fraction", "belongs to fit: crop");
    }
    const bool crops = !data.train.augment.empty() &&
                       std::holds_alternative<RandomResizedCrop>(data.train.augment[0].kind);
    if (data.cache == ImageCache::kDisk && crops) {
      report("data.cache",
             "disk keeps images of one size, but random_resized_crop needs the whole "
             "ones; use memory or none");
    }
    const bool bgr_or_torch =
        data.preprocess == PreprocessPreset::kCaffe || data.preprocess == PreprocessPreset::kTorch;
    if (bgr_or_torch && data.channels == 1) {
      report("data.preprocess", "needs images of 3 channels; use tf, scale or normalize");
    }
  }

  void check_data() {
    const Data& data = config_.data;
    check_split("train", data.train);
    check_split("validation", data.validation);
    check_split("test", data.test);
    check_augment();
    check_images();
    const bool files = data.format == DataFormat::kIdx || data.format == DataFormat::kNpz;
    if (given("data") && files && data.path.empty() && !located(data.train)) {
      report("data",
             "says nowhere where the training samples are: give path, or train: {images: FILE, "
             "labels: FILE}");
    }
    if (given("data") && data.format == DataFormat::kDigits && data.path.empty()) {
      report("data", "format digits needs 'path', a folder to write the files into");
    }
    if (data.validation_split > 0 && located(data.validation)) {
      report("data.validation_split", "cannot be given beside data.validation; choose one");
    }
    std::set<std::string> names;
    for (std::size_t i = 0; i < data.classes.size(); ++i) {
      if (!names.insert(data.classes[i]).second) {
        report(concat("data.classes[", i, ']'), "class '" + data.classes[i] + "' is given twice");
      }
    }
    const auto count = static_cast<std::int64_t>(data.classes.size());
    if (data.num_classes && count > 0 && *data.num_classes != count) {
      report("data.num_classes",
             concat("is ", *data.num_classes, ", but data.classes names ", count));
    }
    const Normalize normalize = data.normalize.value_or(Normalize{});
    const std::size_t means = normalize.mean.size(), deviations = normalize.std.size();
    if (means > 1 && deviations > 1 && means != deviations) {
      report("data.normalize.std", concat("has ", deviations, " entries, but mean has ", means));
    }
  }

  // ---- Training ----

  void check_training() {
    const Schedule& schedule = config_.schedule;
    if (schedule.warm_up && std::holds_alternative<RampUpSchedule>(schedule.kind)) {
      report("schedule.warm_up",
             "ramp_up has a rise of its own; remove warm_up or set ramp_epochs");
    }
    if (const auto& stop = config_.train.early_stop) {
      check_metric("train.early_stop.metric", stop->metric);
      if (config_.data.validation_split == 0 && !located(config_.data.validation)) {
        report("train.early_stop",
               "needs validation samples: give data.validation or "
               "data.validation_split");
      }
    }
    check_cache_features();
    check_parallel();
  }

  void check_parallel() {
    if (config_.parallel.gpus != "0") {
      report("parallel.gpus",
             "must be 0: this version trains on the CPU; found '" + config_.parallel.gpus + "'");
    }
    const Duration& timeout = config_.parallel.timeout;
    if (timeout.unit != Duration::Unit::kSeconds || timeout.count < 1) {
      report("parallel.timeout",
             "expected at least '1 second', found '" + to_string(timeout) + "'");
    }
    check_replicas();
    check_strategy();
    if (config_.parallel.reduction == Parallel::Reduction::kOrdered) check_ordered();
  }

  void check_cache_features() {
    const CacheFeatures cache = config_.train.cache_features;
    if (cache == CacheFeatures::kAuto || cache == CacheFeatures::kOff) return;
    const bool none =
        !config_.model.backbone || config_.model.backbone->freeze.kind == Freeze::Kind::kNone;
    if (none) {
      report("train.cache_features",
             "there are no frozen layers whose features could be kept: set model.backbone.freeze");
    } else if (!config_.data.train.augment.empty()) {
      report("train.cache_features",
             "data.train.augment makes the features different in every epoch: remove it, or use "
             "auto or off");
    }
  }

  void check_replicas() {
    const Parallel& parallel = config_.parallel;
    if (parallel.replicas > 1 && !parallel.lr_scaling) {
      report("parallel.lr_scaling",
             concat("must be given with ", parallel.replicas,
                    " replicas, whose batch is as many times as large: none, linear or sqrt"));
    }
    const bool scales = parallel.lr_scaling && *parallel.lr_scaling != Parallel::LrScaling::kNone;
    if (scales && std::holds_alternative<RampUpSchedule>(config_.schedule.kind)) {
      report("parallel.lr_scaling",
             "must be none: ramp_up has learning rates of its own; schedule.ramp_up.scale scales "
             "its peak");
    }
    if (parallel.threads && *parallel.threads < parallel.replicas) {
      report("parallel.threads",
             concat("gives fewer than one thread to each of ", parallel.replicas, " replicas"));
    }
  }

  // What needs all workers at the same step.
  void check_strategy() {
    const Parallel& parallel = config_.parallel;
    if (parallel.strategy != Parallel::Strategy::kParameterServer) {
      if (parallel.max_staleness) {
        report("parallel.max_staleness", "needs parallel.strategy: parameter_server");
      }
      return;
    }
    const std::string with =
        "with parallel.strategy: parameter_server, whose workers do not wait "
        "for each other; ";
    if (parallel.replicas > 1) {
      report("parallel.replicas",
             concat("must be 1 ", with, "start more workers; found ", parallel.replicas));
    }
    if (parallel.reduction == Parallel::Reduction::kOrdered) {
      report("parallel.reduction", "must be fast " + with + "there is no sum to order");
    }
    if (parallel.batch_norm.sync) {
      report("parallel.batch_norm.sync", "must be false " + with + "there is no common batch");
    }
    if (parallel.lr_scaling && *parallel.lr_scaling != Parallel::LrScaling::kNone) {
      report("parallel.lr_scaling",
             "must be none " + with + "an update is of one worker's batch, however many there are");
    }
    if (config_.model.backbone && !config_.model.backbone->unfreeze.empty()) {
      report("model.backbone.unfreeze",
             "must be empty " + with + "what is frozen cannot change at a step of all");
    }
  }

  static bool is_power_of_two(std::int64_t value) { return (value & (value - 1)) == 0; }

  void check_ordered() {
    const Parallel& parallel = config_.parallel;
    if (!is_power_of_two(parallel.micro_batches)) {
      report("parallel.micro_batches",
             concat("must be a power of two; found ", parallel.micro_batches));
      return;
    }
    const std::int64_t lanes = parallel.replicas * parallel.lanes.value_or(1);
    if (parallel.micro_batches % lanes != 0) {
      report("parallel.micro_batches", concat("must be a multiple of the ", lanes,
                                              " lanes of all replicas, each of which "
                                              "computes as many; found ",
                                              parallel.micro_batches));
    }
  }

  void check_run() {
    if (!config_.run.best.empty()) check_metric("run.best", config_.run.best);
  }

  void check_metric(const std::string& path, const std::string& metric) {
    static const std::vector<std::string> kMetrics{"validation/loss", "validation/accuracy",
                                                   "validation/top_k_accuracy"};
    if (std::find(kMetrics.begin(), kMetrics.end(), metric) != kMetrics.end()) return;
    report(path, unknown("metric", metric, "Expected one of", kMetrics));
  }

  const Decoded& decoded_;
  const Config& config_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace

void check(const Decoded& decoded, std::vector<Diagnostic>& diagnostics) {
  Checker(decoded, diagnostics).run();
}

}  // namespace trainer::config
