#include "model/backbone.h"

#include <algorithm>

#include "base/error.h"
#include "base/glob.h"
#include "config/values.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Pooling = config::Backbone::Pooling;

std::vector<config::Layer> features(const config::Backbone& backbone, Image image) {
  switch (backbone.name) {
    case Name::kVgg16:
      return vgg16_features();
    case Name::kMobileNetV2:
      return mobilenet_v2_features(image, backbone.alpha);
    case Name::kResNet50:
      return resnet50_features();
  }
  return {};
}

// Keras gives only ResNet50's pooling a name of its own.
config::Layer pooling_layer(Name backbone, Pooling pooling) {
  const bool average = pooling == Pooling::kAverage;
  const bool own_name = backbone == Name::kResNet50;
  if (average) return named(own_name ? "avg_pool" : "", config::GlobalAveragePoolLayer{});
  return named(own_name ? "max_pool" : "", config::GlobalMaxPoolLayer{});
}

config::Layer dense(const std::string& name, std::int64_t units, config::Activation activation) {
  config::DenseLayer layer;
  layer.units = units;
  layer.activation = activation;
  return named(name, layer);
}

void add_top(const config::Backbone& backbone, std::int64_t classes,
             std::vector<config::Layer>& layers) {
  if (backbone.name == Name::kVgg16) {
    layers.push_back(named("flatten", config::FlattenLayer{}));
    layers.push_back(dense("fc1", 4096, config::Activation::kRelu));
    layers.push_back(dense("fc2", 4096, config::Activation::kRelu));
  } else {
    layers.push_back(pooling_layer(backbone.name, Pooling::kAverage));
  }
  layers.push_back(dense("predictions", classes, config::Activation::kLinear));
}

// "did you mean 'x'?", or which names there are, of many the first and last.
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
  for (config::Layer& layer : layers) layer.loc = backbone.loc;
  return layers;
}

std::vector<bool> frozen_layers(const config::Backbone& backbone,
                                const std::vector<std::string>& names,
                                std::vector<Diagnostic>& errors) {
  using Kind = config::Freeze::Kind;
  const config::Freeze& freeze = backbone.freeze;
  const auto count = static_cast<std::int64_t>(names.size()) + 1;  // with the input layer
  std::vector<bool> frozen(names.size(), freeze.kind == Kind::kAll);
  // Positions [begin, end) of Keras's list.
  const auto freeze_range = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = std::max<std::int64_t>(begin, 1); i < end; ++i) {
      frozen[static_cast<std::size_t>(i - 1)] = true;
    }
  };
  const auto position = [&](std::int64_t bound) {
    return std::clamp<std::int64_t>(bound < 0 ? bound + count : bound, 0, count);
  };
  if (freeze.kind == Kind::kCount) {
    if (freeze.count > count) {
      errors.push_back(
          {freeze.loc, concat("model.backbone.freeze: is ", freeze.count, ", but the backbone has ",
                              count, " layers, the input included")});
    }
    freeze_range(0, std::min(freeze.count, count));
  } else if (freeze.kind == Kind::kSlice) {
    freeze_range(position(freeze.begin.value_or(0)), position(freeze.end.value_or(count)));
  }
  for (const auto& [pattern, loc] : freeze.patterns) {
    bool any = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!matches(pattern, names[i])) continue;
      any = true;
      frozen[i] = true;
    }
    if (any) continue;
    errors.push_back({loc, concat("model.backbone.freeze: no layer of the backbone is named '",
                                  pattern, "'; ", hint(pattern, names))});
  }
  return frozen;
}

}  // namespace trainer::model
