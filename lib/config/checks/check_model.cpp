#include <algorithm>

#include "config/checks/checks.h"
#include "config/values.h"

namespace trainer::config {
namespace {

std::string path_of(const std::string& list, const Layer& layer, std::size_t index) {
  return concat(list, '[', index, "].", key_of(layer));
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
    if (std::count(shape.begin(), shape.end(), -1) > 1) {
      checks.report(path + ".target_shape", "at most one entry may be -1");
    }
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
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

void check_layers(Checks& checks, const std::string& list, const std::vector<Layer>& layers,
                  std::vector<std::string>& known);

// Inside a round its names are known as they are written, behind it with the round's number.
void check_group(Checks& checks, const RepeatLayer& repeat, const std::string& path,
                 std::vector<std::string>& known) {
  std::vector<std::string> inside = known;
  check_layers(checks, path + ".layers", repeat.layers, inside);
  const std::vector<std::string> added(inside.begin() + static_cast<std::ptrdiff_t>(known.size()),
                                       inside.end());
  for (std::int64_t round = 1; round <= repeat.times; ++round) {
    for (const std::string& name : added) known.push_back(concat(name, "_", round));
  }
}

void check_group(Checks& checks, const ResidualLayer& residual, const std::string& path,
                 std::vector<std::string>& known) {
  check_layers(checks, path + ".layers", residual.layers, known);
  check_layers(checks, path + ".shortcut", residual.shortcut, known);
}

void check_layer(Checks& checks, const Layer& layer, const std::string& path,
                 std::vector<std::string>& known, const std::vector<std::string>& all) {
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
    // The names of a backbone's layers are known to the model alone.
    if (checks.config().model.backbone) break;
    if (std::find(known.begin(), known.end(), input) != known.end()) continue;
    const bool later = !input.empty() && std::find(all.begin(), all.end(), input) != all.end();
    checks.report(concat(path, ".inputs[", i, ']'),
                  later ? "'" + input + "' is not before this layer; inputs name earlier layers"
                        : unknown("layer", input, "Named before it", known));
  }
  if (const auto* repeat = std::get_if<RepeatLayer>(&layer.kind)) {
    check_group(checks, *repeat, path, known);
  } else if (const auto* residual = std::get_if<ResidualLayer>(&layer.kind)) {
    check_group(checks, *residual, path, known);
  }
  if (!layer.name.empty()) {
    if (std::find(known.begin(), known.end(), layer.name) != known.end()) {
      checks.report(path + ".name", layer.name == "input"
                                        ? "'input' is the name of the image"
                                        : "another layer is named '" + layer.name + "'");
    } else {
      known.push_back(layer.name);
    }
  }
  check_kind(checks, layer, path);
}

void check_layers(Checks& checks, const std::string& list, const std::vector<Layer>& layers,
                  std::vector<std::string>& known) {
  std::vector<std::string> later;
  for (const Layer& layer : layers) later.push_back(layer.name);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    check_layer(checks, layers[i], path_of(list, layers[i], i), known, later);
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

void check_backbone(Checks& checks) {
  const Model& model = checks.config().model;
  if (!model.allow_missing.empty() && model.weights.empty()) {
    checks.report("model.allow_missing", "needs model.weights, a file with the tensors");
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
  if (backbone.include_top && backbone.pooling != Backbone::Pooling::kNone) {
    checks.report("model.backbone.pooling",
                  "cannot be given beside include_top: true, which has its own");
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
  check_backbone(checks);
  for (const auto& [list, layers] :
       {std::pair{"model.layers", &model.layers}, std::pair{"model.head", &model.head}}) {
    std::vector<std::string> known{"input"};
    check_layers(checks, list, *layers, known);
  }
}

}  // namespace trainer::config
