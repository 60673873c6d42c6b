#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "config/checks/checks.h"
#include "config/keys.h"
#include "config/pretrained.h"
#include "config/values.h"

namespace trainer::config {
namespace {

std::string make_path(const std::string& list, const Layer& layer, std::size_t index) {
  return concat(list, '[', index, "].", layer_key(layer));
}

void check_kind(Checks& checks, const Layer& layer, const std::string& path) {
  if (const auto* conv = std::get_if<ConvLayer>(&layer.kind)) {
    if (conv->filters % conv->groups != 0) {
      checks.report(path + ".groups", concat("filters, ", conv->filters,
                                             ", is not a multiple of groups, ", conv->groups));
    }
  } else if (const auto* transpose = std::get_if<ConvTransposeLayer>(&layer.kind)) {
    if (transpose->padding.kind == Padding::Kind::kExplicit) {
      checks.report(path + ".padding", "is a list, expected valid or same");
    }
  } else if (const auto* reshape = std::get_if<ReshapeLayer>(&layer.kind)) {
    const auto& shape = reshape->target_shape;
    if (std::ranges::count(shape, -1) > 1) {
      checks.report(path + ".target_shape", "at most one entry may be -1");
    }
    if (std::ranges::find(shape, 0) != shape.end()) {
      checks.report(path + ".target_shape", "an entry is a size of at least 1, or -1");
    }
  } else if (const auto* relu = std::get_if<ReluLayer>(&layer.kind)) {
    if (relu->max_value && *relu->max_value != 6) {
      checks.report(path + ".max_value", "must be 6, or left out for no limit");
    }
  } else if (const auto* activation = std::get_if<ActivationLayer>(&layer.kind)) {
    const Activation function = activation->function;
    if (activation->alpha && function != Activation::kLeakyRelu && function != Activation::kElu) {
      checks.report(path + ".alpha", "belongs to leaky_relu and elu only");
    }
  }
}

// The limit is above the number of layers of the deepest residual networks. The time of the
// compiler's passes and of the plan grows with the pairs of layers.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::size_t kMaxLayerNameBytes = 256;
constexpr std::size_t kMaxListedNames = 12;  // in a message

// Returns the number of layers of a list with the rounds of its groups; kMaxLayers + 1 for any
// larger number.
std::int64_t count_layers(const std::vector<Layer>& layers);

std::int64_t count_layers(const RepeatLayer& repeat) {
  if (repeat.times) {
    const std::int64_t rounds = std::clamp<std::int64_t>(*repeat.times, 0, kMaxLayers + 1);
    return rounds * count_layers(repeat.layers);
  }
  std::int64_t count = 0;
  for (const Round& round : repeat.rounds) count += count_layers(round.layers);
  return count;
}

std::int64_t count_layers(const std::vector<Layer>& layers) {
  std::int64_t count = 0;
  for (const Layer& layer : layers) {
    if (const auto* repeat = std::get_if<RepeatLayer>(&layer.kind)) {
      count += count_layers(*repeat);
    } else if (const auto* residual = std::get_if<ResidualLayer>(&layer.kind)) {
      count += count_layers(residual->layers) + count_layers(residual->shortcut);
    }
    if (++count > kMaxLayers) return kMaxLayers + 1;
  }
  return count;
}

// The names that a layer may take as inputs, in the order of the layers.
class KnownNames {
 public:
  void add(const std::string& name) {
    if (set_.insert(name).second) names_.push_back(name);
  }
  bool contains(const std::string& name) const { return set_.contains(name); }
  const std::vector<std::string>& names() const { return names_; }
  // Removes all names after the first `count`, and returns them.
  std::vector<std::string> remove_after(std::size_t count) {
    std::vector<std::string> removed(names_.begin() + count, names_.end());
    names_.resize(count);
    for (const std::string& name : removed) set_.erase(name);
    return removed;
  }
  std::vector<std::string> last(std::size_t count) const {
    return {names_.end() - static_cast<std::ptrdiff_t>(std::min(count, names_.size())),
            names_.end()};
  }

 private:
  std::vector<std::string> names_;
  std::unordered_set<std::string> set_;
};

void check_layers(Checks& checks, const std::string& list, const std::vector<Layer>& layers,
                  KnownNames& known);

// Layers inside a round use the names in the config; layers after it use the names with the number
// of the round.
void check_group(Checks& checks, const RepeatLayer& repeat, const std::string& path,
                 KnownNames& known) {
  if (repeat.times && repeat.layers.empty()) {
    checks.report(path, "missing required key 'layers': the layers of a round");
  }
  const std::size_t outside = known.names().size();
  std::vector<std::string> added;  // with the numbers of their rounds
  const auto check_round = [&](const std::string& list, const std::vector<Layer>& layers,
                               std::int64_t first, std::int64_t last) {
    check_layers(checks, list, layers, known);
    const std::vector<std::string> names = known.remove_after(outside);
    for (std::int64_t round = first; round <= last; ++round) {
      for (const std::string& name : names) added.push_back(concat(name, "_", round));
    }
  };
  if (repeat.times) {
    check_round(path + ".layers", repeat.layers, 1, *repeat.times);
  } else {
    for (std::size_t i = 0; i < repeat.rounds.size(); ++i) {
      const auto round = static_cast<std::int64_t>(i) + 1;
      check_round(concat(path, ".rounds[", i, "].layers"), repeat.rounds[i].layers, round, round);
    }
  }
  for (const std::string& name : added) known.add(name);
}

void check_group(Checks& checks, const ResidualLayer& residual, const std::string& path,
                 KnownNames& known) {
  check_layers(checks, path + ".layers", residual.layers, known);
  check_layers(checks, path + ".shortcut", residual.shortcut, known);
}

void check_layer(Checks& checks, const Layer& layer, const std::string& path, KnownNames& known,
                 const std::unordered_set<std::string>& all) {
  const bool joins = std::holds_alternative<AddLayer>(layer.kind) ||
                     std::holds_alternative<ConcatenateLayer>(layer.kind) ||
                     std::holds_alternative<MultiplyLayer>(layer.kind);
  if (joins && layer.inputs.size() < 2) {
    checks.report(path, "needs 'inputs' with the names of two layers or more");
  }
  if (!joins && layer.inputs.size() > 1) {
    checks.report(path + ".inputs", "takes one input; join several with add or concatenate first");
  }
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    const std::string& input = layer.inputs[i];
    // The layers of a backbone, and so their names, do not exist before the model is built.
    if (checks.config().model.backbone) break;
    if (known.contains(input)) continue;
    if (checks.full()) return;
    const bool later = !input.empty() && all.contains(input);
    const bool few = known.names().size() <= kMaxListedNames;
    checks.report(concat(path, ".inputs[", i, ']'),
                  later ? "'" + input + "' is not before this layer; inputs name earlier layers"
                        : unknown("layer", input, few ? "Named before it" : "Last before it",
                                  known.last(kMaxListedNames)));
  }
  if (const auto* repeat = std::get_if<RepeatLayer>(&layer.kind)) {
    check_group(checks, *repeat, path, known);
  } else if (const auto* residual = std::get_if<ResidualLayer>(&layer.kind)) {
    check_group(checks, *residual, path, known);
  }
  if (!layer.name.empty()) {
    if (layer.name.size() > kMaxLayerNameBytes) {
      checks.report(path + ".name", concat("has ", layer.name.size(), " bytes; a name may have ",
                                           kMaxLayerNameBytes));
    } else if (known.contains(layer.name)) {
      checks.report(path + ".name", layer.name == "input"
                                        ? "'input' is the name of the image"
                                        : "another layer is named '" + layer.name + "'");
    } else {
      known.add(layer.name);
    }
  }
  check_kind(checks, layer, path);
}

void check_layers(Checks& checks, const std::string& list, const std::vector<Layer>& layers,
                  KnownNames& known) {
  std::unordered_set<std::string> later;
  for (const Layer& layer : layers) later.insert(layer.name);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    check_layer(checks, layers[i], make_path(list, layers[i], i), known, later);
  }
}

// Steps and epochs cannot be compared without the data.
void check_unfreeze(Checks& checks, const Backbone& backbone) {
  for (std::size_t i = 0; i < backbone.unfreeze.size(); ++i) {
    const std::string path = concat("model.backbone.unfreeze[", i, "].at");
    const Duration& at = backbone.unfreeze[i].at;
    if (checks.broken(path) || i == 0) continue;
    const Duration& before = backbone.unfreeze[i - 1].at;
    if (at.unit == before.unit && at.count <= before.count) {
      checks.report(path,
                    concat("is ", to_string(at), ", not after the ", to_string(before),
                           " of the entry before; list them in the order in which they come"));
    }
  }
}

bool has_alpha(Backbone::Name name) {
  using Name = Backbone::Name;
  return name == Name::kMobileNetV2 || name == Name::kMobileNetV3Small ||
         name == Name::kMobileNetV3Large;
}

void check_variant(Checks& checks, const Backbone& backbone) {
  if (!backbone.variant || checks.broken(keys::kBackboneName)) return;
  const std::vector<Backbone::Variant> variants = list_variants(backbone.name);
  if (std::ranges::find(variants, *backbone.variant) != variants.end()) return;
  std::vector<std::string> words;
  for (const Backbone::Variant variant : variants) words.emplace_back(spell(variant));
  checks.report(keys::kBackboneVariant,
                concat("there is no ", spell(backbone.name), " of ", spell(*backbone.variant),
                       " here; its variants are ", join(words)));
}

bool has_residual_blocks(Backbone::Name name) {
  return name != Backbone::Name::kVgg16 && name != Backbone::Name::kDenseNet121;
}

void check_backbone(Checks& checks) {
  const Model& model = checks.config().model;
  if (!model.allow_missing.empty() && model.weights.empty()) {
    checks.report("model.allow_missing", "needs model.weights, a file with the tensors");
  }
  const bool has_file =
      !model.weights.empty() || (model.backbone && !model.backbone->weights.empty());
  if (!model.weights_entry.empty() && !has_file) {
    checks.report("model.weights_entry", "needs a file of weights");
  }
  if (!model.backbone) {
    if (!model.head.empty())
      checks.report("model.head", "needs model.backbone, whose features it takes");
    return;
  }
  const Backbone& backbone = *model.backbone;
  const bool named = !checks.broken("model.backbone.name");
  if (named && backbone.alpha != 1 && !has_alpha(backbone.name)) {
    checks.report("model.backbone.alpha", "belongs to mobilenet_v2 and mobilenet_v3 only");
  }
  check_variant(checks, backbone);
  if (named && backbone.drop_path && !has_residual_blocks(backbone.name)) {
    checks.report("model.backbone.drop_path", concat("needs a network of residual blocks, and ",
                                                     spell(backbone.name), " has none; remove it"));
  }
  if (backbone.include_top && backbone.pooling != Backbone::Pooling::kNone) {
    checks.report("model.backbone.pooling",
                  "cannot be given beside include_top: true, which has its own");
  }
  if (named && backbone.pooling == Backbone::Pooling::kToken && !has_class_token(backbone.name)) {
    checks.report("model.backbone.pooling", concat("is token, but ", spell(backbone.name),
                                                   " has no class token; use avg or max"));
  }
  if (!backbone.include_top && model.head.empty()) {
    checks.report("model.backbone",
                  "needs model.head, the layers that make logits of its features; e.g. "
                  "head: [global_average_pool, {dense: {units: 4}}]");
  }
  if (!backbone.allow_missing.empty() && backbone.weights.empty()) {
    checks.report("model.backbone.allow_missing", "needs weights, a file with the tensors");
  }
  check_unfreeze(checks, backbone);
}

}  // namespace

void check_model(Checks& checks) {
  const Model& model = checks.config().model;
  if (checks.given("model.layers") && model.layers.empty() && !model.dense_classifier) {
    checks.report("model.layers", "a model needs at least one layer");
  }
  if (model.label_smoothing > 0 && model.loss == LossKind::kMeanSquaredError) {
    checks.report("model.label_smoothing",
                  "works with softmax_cross_entropy and binary_cross_entropy only");
  }
  if (model.focal && model.loss == LossKind::kMeanSquaredError) {
    checks.report("model.focal", "works with softmax_cross_entropy and binary_cross_entropy only");
  }
  if (model.target_threshold && model.loss != LossKind::kBinaryCrossEntropy) {
    checks.report("model.target_threshold", "works with binary_cross_entropy only");
  }
  check_backbone(checks);
  for (const auto& [list, layers] :
       {std::pair{"model.layers", &model.layers}, std::pair{"model.head", &model.head}}) {
    if (count_layers(*layers) > kMaxLayers) {
      checks.report(list, concat("has more than ", kMaxLayers,
                                 " layers, those of repeated groups included; make the model "
                                 "smaller"));
      continue;
    }
    KnownNames known;
    known.add("input");
    check_layers(checks, list, *layers, known);
  }
}

}  // namespace trainer::config
