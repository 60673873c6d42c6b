#include "model/backbones/backbone.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/glob.h"
#include "config/pretrained.h"
#include "config/values.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Pooling = config::Backbone::Pooling;

constexpr double kEfficientNetDropPath = 0.2;  // Keras's drop_connect_rate

std::vector<config::Layer> features(const config::Backbone& backbone, Image image) {
  const config::Backbone::Variant variant = config::find_variant(backbone);
  const double drop_path = backbone.drop_path.value_or(0);
  const double of_efficientnet = backbone.drop_path.value_or(kEfficientNetDropPath);
  switch (backbone.name) {
    case Name::kVgg16:
      return vgg16_features(variant);
    case Name::kMobileNetV2:
      return mobilenet_v2_features(image, backbone.alpha, drop_path);
    case Name::kResNet50:
      return resnet50_features(variant, drop_path);
    case Name::kResNet18:
      return resnet18_features({2, 2, 2, 2}, drop_path);
    case Name::kResNet34:
      return resnet18_features({3, 4, 6, 3}, drop_path);
    case Name::kResNet101:
      return resnet101_features(variant, drop_path);
    case Name::kDenseNet121:
      return densenet121_features();
    case Name::kEfficientNetB0:
      return efficientnet_features(image, 1.0, 1.0, of_efficientnet);
    case Name::kEfficientNetB1:
      return efficientnet_features(image, 1.0, 1.1, of_efficientnet);
    case Name::kEfficientNetB2:
      return efficientnet_features(image, 1.1, 1.2, of_efficientnet);
    case Name::kEfficientNetB3:
      return efficientnet_features(image, 1.2, 1.4, of_efficientnet);
    case Name::kMobileNetV3Small:
      return mobilenet_v3_features(image, backbone.alpha, false, drop_path);
    case Name::kMobileNetV3Large:
      return mobilenet_v3_features(image, backbone.alpha, true, drop_path);
    case Name::kConvNeXtTiny:
      return convnext_tiny_features(drop_path);
  }
  return {};
}

// Makes the pooling at the end, which has a name of its own in most of Keras's models.
config::Layer pooling_layer(Name backbone, Pooling pooling) {
  const bool average = pooling == Pooling::kAverage;
  const bool own_name =
      backbone != Name::kVgg16 && backbone != Name::kMobileNetV2 && backbone != Name::kConvNeXtTiny;
  if (average) return named(own_name ? "avg_pool" : "", config::GlobalAveragePoolLayer{});
  return named(own_name ? "max_pool" : "", config::GlobalMaxPoolLayer{});
}

config::Layer dense(const std::string& name, std::int64_t units, config::Activation activation) {
  config::DenseLayer layer;
  layer.units = units;
  layer.activation = activation;
  return named(name, layer);
}

config::Layer layer_norm(const std::string& name) {
  config::LayerNormLayer layer;
  layer.epsilon = 1e-6;
  return named(name, layer);
}

bool is_mobilenet_v3(Name name) {
  return name == Name::kMobileNetV3Small || name == Name::kMobileNetV3Large;
}

// Returns the dropout rate of EfficientNet's classifier.
double top_dropout(Name name) {
  if (name == Name::kEfficientNetB0 || name == Name::kEfficientNetB1) return 0.2;
  return name == Name::kEfficientNetB2 || name == Name::kEfficientNetB3 ? 0.3 : 0;
}

// The classifier of torchvision has dropout too.
void add_vgg16_top(bool is_keras, std::int64_t classes, std::vector<config::Layer>& layers) {
  layers.push_back(named("flatten", config::FlattenLayer{}));
  layers.push_back(dense(is_keras ? "fc1" : "classifier.0", 4096, config::Activation::kRelu));
  if (!is_keras) layers.push_back(named("classifier.2", config::DropoutLayer{0.5}));
  layers.push_back(dense(is_keras ? "fc2" : "classifier.3", 4096, config::Activation::kRelu));
  if (!is_keras) layers.push_back(named("classifier.5", config::DropoutLayer{0.5}));
  layers.push_back(
      dense(is_keras ? "predictions" : "classifier.6", classes, config::Activation::kLinear));
}

void add_top(const config::Backbone& backbone, std::int64_t classes,
             std::vector<config::Layer>& layers) {
  if (is_mobilenet_v3(backbone.name)) {
    const bool large = backbone.name == Name::kMobileNetV3Large;
    for (config::Layer& layer : mobilenet_v3_top(backbone.alpha, large, classes)) {
      layers.push_back(std::move(layer));
    }
    return;
  }
  if (backbone.name == Name::kConvNeXtTiny) {
    layers.push_back(named("convnext_tiny_head_gap", config::GlobalAveragePoolLayer{}));
    layers.push_back(layer_norm("convnext_tiny_head_layernorm"));
    layers.push_back(dense("convnext_tiny_head_dense", classes, config::Activation::kLinear));
    return;
  }
  const bool is_keras = config::find_variant(backbone) == config::Backbone::Variant::kKeras;
  if (backbone.name == Name::kVgg16) {
    return add_vgg16_top(is_keras, classes, layers);
  }
  layers.push_back(pooling_layer(backbone.name, Pooling::kAverage));
  if (const double rate = top_dropout(backbone.name); rate > 0) {
    layers.push_back(named("top_dropout", config::DropoutLayer{rate}));
  }
  layers.push_back(dense(is_keras ? "predictions" : "fc", classes, config::Activation::kLinear));
}

// Returns "did you mean 'x'?", or the names that exist; of many, the first and the last.
std::string hint(const std::string& pattern, const std::vector<std::string>& names) {
  if (const auto near = config::nearest(pattern, names)) return "did you mean '" + *near + "'?";
  return concat("its ", names.size(), " layers are ", names.front(), " to ", names.back(),
                "; trainer plan lists them");
}

}  // namespace

std::vector<config::Layer> backbone_layers(const config::Backbone& backbone, Image image,
                                           std::int64_t classes) {
  std::vector<config::Layer> layers = features(backbone, image);
  if (backbone.include_top) {
    add_top(backbone, classes, layers);
  } else if (backbone.pooling != Pooling::kNone) {
    layers.push_back(pooling_layer(backbone.name, backbone.pooling));
  }
  if (!backbone.include_top && backbone.name == Name::kConvNeXtTiny) {
    layers.push_back(layer_norm("layer_normalization"));
  }
  for (config::Layer& layer : layers) layer.loc = backbone.loc;
  return layers;
}

bool has_keras_normalization(const config::Backbone& backbone) {
  return backbone.name == Name::kEfficientNetB0 || backbone.name == Name::kEfficientNetB1 ||
         backbone.name == Name::kEfficientNetB2 || backbone.name == Name::kEfficientNetB3;
}

std::vector<bool> frozen_layers(const config::Backbone& backbone,
                                const std::vector<std::string>& names,
                                std::vector<Diagnostic>& errors) {
  using Kind = config::Freeze::Kind;
  const config::Freeze& freeze = backbone.freeze;
  const auto count = std::ssize(names) + 1;  // includes the input layer
  std::vector<bool> frozen(names.size(), freeze.kind == Kind::kAll);
  // Positions [begin, end) of Keras's list. Returns whether any layer has one of them.
  const auto freeze_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = std::max<std::int64_t>(begin, 1); i < end; ++i) frozen[i - 1] = true;
    return begin < end;
  };
  const auto position = [&](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + count : bound, 0, count);
  };
  const auto freeze_matches = [&](const std::string& pattern) {
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!matches(pattern, names[i])) continue;
      any = true;
      frozen[i] = true;
    }
    return any;
  };
  if (freeze.kind == Kind::kCount) {
    if (freeze.count > count) {
      errors.push_back(
          {freeze.loc, concat("model.backbone.freeze: is ", freeze.count, ", but the backbone has ",
                              count, " layers, the input included")});
    }
    freeze_range(0, std::min(freeze.count, count));
  }
  for (const config::LayerSelection& selection : freeze.selections) {
    if (selection.slice) {
      const bool any = freeze_range(position(selection.slice->begin.value_or(0)),
                                    position(selection.slice->end.value_or(count)));
      // A slice alone may be empty, as in Python.
      if (any || freeze.selections.size() == 1) continue;
      errors.push_back(
          {selection.loc, concat("model.backbone.freeze: the slice selects none of the ", count,
                                 " layers, the input included; remove it from the list, or "
                                 "correct its bounds")});
    } else if (!freeze_matches(selection.pattern)) {
      errors.push_back(
          {selection.loc, concat("model.backbone.freeze: no layer of the backbone is named '",
                                 selection.pattern, "'; ", hint(selection.pattern, names))});
    }
  }
  return frozen;
}

}  // namespace trainer::model
