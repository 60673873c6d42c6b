#include "model/backbones/backbone.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/glob.h"
#include "config/pretrained.h"
#include "config/values.h"

namespace trainer::model {
namespace {

using Pooling = config::Backbone::Pooling;

// Returns "did you mean 'x'?", or the names that exist; of many, the first and the last.
std::string hint(const std::string& pattern, const std::vector<std::string>& names) {
  if (const auto near = config::nearest(pattern, names)) return "did you mean '" + *near + "'?";
  return concat("its ", names.size(), " layers are ", names.front(), " to ", names.back(),
                "; trainer plan lists them");
}

}  // namespace

Network build_backbone(const config::Backbone& backbone, Image image, std::int64_t classes) {
  Network network;
  for (const auto family :
       {vgg, resnet, densenet, inverted_residuals, convnext, regnet, mobilenet_v4, xception, vit}) {
    network = family(backbone, image, classes);
    if (!network.layers.empty()) break;
  }
  const auto add = [&](config::Layer layer) {
    network.layers.push_back(std::move(layer));
    network.groups.push_back(kHeadGroup);
  };
  const bool is_named = network.has_named_pooling;
  if (network.has_own_pooling) {
    // Nothing follows.
  } else if (!backbone.include_top && backbone.pooling == Pooling::kAverage) {
    add({config::GlobalAveragePoolLayer{}, is_named ? "avg_pool" : "", {}, {}});
  } else if (!backbone.include_top && backbone.pooling == Pooling::kMax) {
    add({config::GlobalMaxPoolLayer{}, is_named ? "max_pool" : "", {}, {}});
  }
  if (!backbone.include_top && network.last_norm) add(*network.last_norm);
  for (config::Layer& layer : network.layers) layer.loc = backbone.loc;
  return network;
}

bool has_keras_normalization(const config::Backbone& backbone) {
  return config::find_variant(backbone) == config::Backbone::Variant::kKeras &&
         spell(backbone.name).starts_with("efficientnet_");
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
