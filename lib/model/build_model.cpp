#include "model/build_model.h"

#include <algorithm>
#include <map>
#include <utility>

#include "config/rule.h"
#include "config/values.h"
#include "model/backbones/backbone.h"
#include "model/backbones/depth_groups.h"
#include "model/expand_layers.h"
#include "model/last_layer.h"
#include "model/layers.h"
#include "model/names.h"

namespace trainer::model {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::ValueId;

constexpr std::int64_t kImageNetClasses = 1000;  // of a top, if those of the data are unknown
// A guess compares all layers, so that only the first errors of many have one.
constexpr std::size_t kMaxGuesses = 20;
constexpr std::int64_t kMinPixels = 32;  // of each side of a backbone's image

// Returns the layers of a dense classifier, of which the last has `logits` outputs.
std::vector<config::Layer> make_dense_classifier(const config::DenseClassifier& classifier,
                                                 std::int64_t logits) {
  std::vector<config::Layer> layers;
  const auto add = [&](config::LayerKind kind) {
    layers.push_back({std::move(kind), "", {}, classifier.loc});
  };
  add(config::FlattenLayer{});
  for (const std::int64_t units : classifier.hidden_units) {
    config::DenseLayer hidden;
    hidden.units = units;
    hidden.activation = classifier.activation;
    hidden.kernel_initializer = classifier.kernel_initializer;
    add(hidden);
    if (classifier.dropout > 0) add(config::DropoutLayer{classifier.dropout});
  }
  config::DenseLayer last;
  last.units = logits;
  last.kernel_initializer = classifier.kernel_initializer;
  add(last);
  return layers;
}

// Builds the graph layer by layer and collects errors. A layer that reads a wrong one is skipped.
class Builder {
 public:
  Builder(const config::Model& model, const config::Data& data, const SampleSpec& sample,
          std::uint64_t seed)
      : model_(model), data_(data), sample_(sample), seed_(seed) {}

  Graph build() && {
    check_binary_classes();
    add_input();
    list_layers();
    if (layers_.empty()) {
      error(model_.loc, "the model has no layers; list some under model.layers");
    }
    NamedLayers expanded = expand_layers(layers_, errors_);
    layers_ = std::move(expanded.layers);
    names_ = std::move(expanded.names);
    if (model_.backbone) freeze_backbone();
    for (std::size_t i = 0; i < layers_.size(); ++i) add_one(i);
    check_all_used();
    add_loss();
    if (!errors_.empty()) throw ConfigError(std::move(errors_));
    return std::move(graph_);
  }

 private:
  void list_layers() {
    if (model_.dense_classifier) {
      layers_ = make_dense_classifier(*model_.dense_classifier, expected_logits());
    } else if (model_.backbone) {
      check_backbone_input();
      const std::int64_t logits = expected_logits();
      Network network = build_backbone(*model_.backbone, {sample_.image[0], sample_.image[1]},
                                       logits > 0 ? logits : kImageNetClasses);
      layers_ = std::move(network.layers);
      groups_ = std::move(network.groups);
      layers_.insert(layers_.end(), model_.head.begin(), model_.head.end());
    } else {
      layers_ = model_.layers;
    }
  }

  // Checks the smallest image that Keras allows.
  void check_backbone_input() {
    const Shape& image = sample_.image;
    const std::int64_t patch = find_patch_size(model_.backbone->name);
    if (image[0] % patch != 0 || image[1] % patch != 0) {
      const auto nearest = [&](std::int64_t side) {
        return std::max(kMinPixels + patch - 1, side + patch / 2) / patch * patch;
      };
      error(model_.backbone->loc, "model.backbone: ", spell(model_.backbone->name),
            " needs images whose height and width are multiples of ", patch, ", got ",
            to_string(image), "; set data.resize: [", nearest(image[0]), ", ", nearest(image[1]),
            ']');
    }
    if (image[0] >= kMinPixels && image[1] >= kMinPixels) return;
    error(model_.backbone->loc, "model.backbone: needs images of at least ", kMinPixels, "x",
          kMinPixels, " pixels, got ", to_string(image), "; enlarge them with data.resize");
  }

  void freeze_backbone() {
    const std::vector<std::string> names(names_.begin(), names_.begin() + groups_.size());
    frozen_ = frozen_layers(*model_.backbone, names, errors_);
  }

  // Sets whether and how a layer is trained, and the file of its weights.
  void describe(std::size_t i, graph::LayerInfo& info) const {
    info.weights = model_.weights;
    if (model_.backbone && i < groups_.size()) {
      if (model_.weights.empty()) info.weights = model_.backbone->weights;
      info.trainable = !frozen_[i];
      info.moving_statistics =
          frozen_[i] || model_.backbone->batch_norm == config::Backbone::BatchNorm::kEval;
    }
  }

  template <class... Parts>
  void error(const SourceLoc& loc, const Parts&... parts) {
    errors_.push_back({loc, concat(parts...)});
  }

  bool binary_index() const {
    return model_.loss == LossKind::kBinaryCrossEntropy && sample_.label_is_index;
  }

  std::int64_t expected_logits() const {
    return count_outputs(model_.loss, sample_.label_is_index, sample_.classes);
  }

  bool is_binary_of_one_class() const { return binary_index() && sample_.classes == 1; }

  void check_binary_classes() {
    if (is_binary_of_one_class()) {
      error(model_.loc, "binary_cross_entropy needs two classes or more, the data set has 1");
    }
  }

  std::vector<float> per_channel(const char* key, const std::vector<double>& numbers,
                                 float otherwise) {
    const std::size_t channels = sample_.image[2];
    if (numbers.size() > 1 && numbers.size() != channels) {
      if (data_.preprocess) return std::vector<float>(channels, otherwise);  // see check_preset()
      error(data_.loc, "data.normalize.", key, " has ", numbers.size(),
            " numbers, but the images have ", channels, " channels; give one, or one per channel");
      return std::vector<float>(channels, otherwise);
    }
    if (numbers.size() == channels) return {numbers.begin(), numbers.end()};
    return std::vector<float>(channels,
                              numbers.empty() ? otherwise : static_cast<float>(numbers[0]));
  }

  void check_preset() {
    const std::int64_t numbers = std::ssize(config::find_normalize(data_).mean);
    if (!data_.preprocess || numbers < 2 || numbers == sample_.image[2]) return;
    error(data_.loc, "data.preprocess: ", spell(*data_.preprocess), " needs images of ", numbers,
          " channels, but these have ", sample_.image[2],
          "; use tf or scale, or data.normalize in its place",
          model_.backbone ? " (a backbone chooses its own preset where none is given)" : "");
  }

  void add_input() {
    const Shape& image = sample_.image;
    check_preset();
    if (!model_.input.empty() && Shape(model_.input) != image) {
      error(model_.loc, "model.input is ", to_string(Shape(model_.input)),
            ", but the data set's images are ", to_string(image),
            "; remove model.input or give these numbers");
    }
    images_ = add_graph_input("images", {kBatch, image[0], image[1], image[2]}, sample_.image_type);
    const std::int64_t targets = sample_.classes + (sample_.sample_weight ? 1 : 0);
    labels_ = sample_.label_is_index
                  ? add_graph_input("labels", {kBatch}, DType::kInt32)
                  : add_graph_input("labels", {kBatch, targets}, DType::kFloat32);
    const config::Normalize normalize = config::find_normalize(data_);
    const graph::Preprocess preprocess{
        static_cast<float>(normalize.scale), per_channel("mean", normalize.mean, 0),
        per_channel("std", normalize.std, 1), normalize.reverse_channels};
    const ValueId x = graph_.add1(preprocess, {images_}, "input", model_.loc);
    graph::LayerInfo info;
    info.name = "input";
    info.kind = "InputLayer";
    info.output = x;
    info.loc = model_.loc;
    graph_.layers.push_back(std::move(info));
    outputs_["input"] = x;
  }

  ValueId add_graph_input(const char* name, Shape shape, DType type) {
    graph_.inputs.push_back(
        graph_.add_value({name, std::move(shape), type, graph::Role::kInput, model_.loc}));
    return graph_.inputs.back();
  }

  // Finds the outputs of the layers that layer i names; returns false if one of them is wrong.
  bool find_inputs(std::size_t i, std::vector<ValueId>& inputs) {
    bool right = true;
    for (const std::string& name : layers_[i].inputs) {
      used_[name] = true;
      const auto found = outputs_.find(name);
      if (found == outputs_.end()) {
        const bool later = std::ranges::find(names_, name) != names_.end();
        error(layers_[i].loc, names_[i], ": inputs: ",
              later ? "layer '" + name + "' comes later; move it before this one"
                    : "there is no layer '" + name + "'" +
                          (errors_.size() < kMaxGuesses ? known_layers(name) : ""));
        right = false;
      } else if (found->second == kNoValue) {
        right = false;
      } else {
        inputs.push_back(found->second);
      }
    }
    return right;
  }

  std::string known_layers(const std::string& name) const {
    std::vector<std::string> known;
    for (const graph::LayerInfo& layer : graph_.layers) known.push_back(layer.name);
    return suggest_layers(name, std::move(known), " before this one");
  }

  void add_one(std::size_t i) {
    graph::LayerInfo info;
    info.name = names_[i];
    info.kind = config::keras_class(layers_[i]);
    info.inputs = layers_[i].inputs;
    info.loc = layers_[i].loc;
    describe(i, info);
    LayerSite site{graph_, info, {}, seed_, dropouts_};
    if (find_inputs(i, site.inputs)) {
      try {
        info.output = add_layer(layers_[i].kind, site);
      } catch (const ConfigError& wrong) {
        errors_.insert(errors_.end(), wrong.diagnostics().begin(), wrong.diagnostics().end());
      }
    }
    outputs_[names_[i]] = info.output;
    if (!info.parameters.empty()) {
      std::optional<int> group;
      if (model_.backbone) group = i < groups_.size() ? groups_[i] : kHeadGroup;
      info.depth = depths_.add(info.name, info.kind, group);
    }
    graph_.layers.push_back(std::move(info));
  }

  void check_all_used() {
    for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
      if (used_.contains(names_[i])) continue;
      error(layers_[i].loc, names_[i],
            ": no later layer uses this one; name it in the inputs of "
            "a later layer, or remove it");
    }
  }

  bool logits_fit(ValueId logits, const config::Layer& last) {
    const Shape& shape = graph_[logits].shape;
    if (is_binary_of_one_class()) return false;  // see check_binary_classes()
    std::int64_t expected = expected_logits();
    // With binary_cross_entropy no number of classes has two logits.
    const bool are_two = expected <= 0 && binary_index() && shape[shape.rank() - 1] == 2;
    if (are_two) expected = 1;
    if (shape.rank() == 2 && (expected <= 0 || shape[1] == expected)) return true;
    const std::string what = binary_index() && expected == 1
                                 ? "one logit for binary_cross_entropy of two classes"
                                 : concat("one number for each of the ", sample_.classes,
                                          sample_.label_is_index ? " classes" : " labels");
    const bool has_units = std::holds_alternative<config::DenseLayer>(last.kind);
    const std::string units = concat("units: ", expected);
    const std::string change = shape.rank() != 2
                                   ? concat("end the model with flatten and dense: {", units, "}")
                               : has_units ? "set " + units
                                           : concat("end the model with dense: {", units, "}");
    error(last.loc, names_.back(), ": the last layer gives ", to_string(shape), ", expected ",
          to_string(Shape{kBatch, expected}), ", ", what, "; ", change,
          shape.rank() == 2 && shape[1] == 1 && expected == 2 &&
                  model_.loss != LossKind::kBinaryCrossEntropy
              ? ", or model.loss: binary_cross_entropy"
              : "");
    return false;
  }

  void add_loss() {
    if (layers_.empty()) return;
    const config::Layer& last = layers_.back();
    const ValueId logits = outputs_[names_.back()];
    if (logits == kNoValue) return;
    if (const std::string wrong = describe_repeated_function(last, model_.loss); !wrong.empty()) {
      return error(last.loc, names_.back(), ": ", wrong);
    }
    if (!logits_fit(logits, last) || !errors_.empty()) return;
    graph::Loss loss{model_.loss, static_cast<float>(model_.label_smoothing), false};
    loss.focal = focal();
    loss.class_weight = sample_.class_weight;
    loss.sample_weight = sample_.sample_weight;
    loss.target_weight = sample_.target_weight;
    if (model_.target_threshold) {
      loss.target_threshold = static_cast<float>(*model_.target_threshold);
    }
    const std::int64_t outputs = graph_[logits].shape[1];
    if (binary_index() && outputs > 1) loss.smoothing_centre = 1 / static_cast<float>(outputs);
    graph_.outputs = {logits, graph_.add1(loss, {logits, labels_}, "loss", model_.loc)};
  }

  std::optional<graph::Focal> focal() const {
    if (!model_.focal) return std::nullopt;
    const bool softmax = model_.loss == LossKind::kSoftmaxCrossEntropy;
    return graph::Focal{static_cast<float>(model_.focal->gamma),
                        static_cast<float>(model_.focal->alpha.value_or(softmax ? 0.25 : -1))};
  }

  const config::Model& model_;
  const config::Data& data_;
  const SampleSpec& sample_;
  const std::uint64_t seed_;
  Graph graph_;
  std::vector<Diagnostic> errors_;
  std::vector<config::Layer> layers_;
  DepthGroups depths_;
  std::vector<int> groups_;   // of the first layers, which are the backbone
  std::vector<bool> frozen_;  // by layer of the backbone
  std::vector<std::string> names_;
  std::map<std::string, ValueId> outputs_;  // by layer name; kNoValue for a layer with a mistake
  std::map<std::string, bool> used_;
  ValueId images_ = kNoValue, labels_ = kNoValue;
  std::uint32_t dropouts_ = 0;
};

}  // namespace

std::int64_t count_outputs(LossKind loss, bool label_is_index, std::int64_t classes) {
  const bool is_one = loss == LossKind::kBinaryCrossEntropy && label_is_index && classes == 2;
  return is_one ? 1 : classes;
}

Graph build_model(const config::Model& model, const config::Data& data, const SampleSpec& sample,
                  std::uint64_t seed) {
  Graph graph = Builder(model, data, sample, seed).build();
  verify(graph);
  return graph;
}

Graph build_model(const config::Config& config, const SampleSpec& sample) {
  return build_model(config.model, config.data, sample, config.seed);
}

}  // namespace trainer::model
