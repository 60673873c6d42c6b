// The networks of Keras's applications and of torchvision as layer lists. Internal to model.
//
// A new network needs a file with its list, a line in backbone.cpp and a name in config. Names,
// shapes and paddings are those of its source. The order is that of Keras's `model.layers`, without
// the input layer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config/sections/layers.h"
#include "config/sections/model.h"

namespace trainer::model {

struct Image {
  std::int64_t height = 0, width = 0;
};

// These lists leave out the classifier and the pooling at the end. `drop_path` is the rate of
// stochastic depth.
std::vector<config::Layer> vgg16_features(config::Backbone::Variant variant);
std::vector<config::Layer> mobilenet_v2_features(Image image, double alpha, double drop_path);
std::vector<config::Layer> resnet50_features(config::Backbone::Variant variant, double drop_path);
std::vector<config::Layer> resnet101_features(config::Backbone::Variant variant, double drop_path);
// `blocks` has a number per stage.
std::vector<config::Layer> resnet18_features(const std::array<int, 4>& blocks, double drop_path);
std::vector<config::Layer> densenet121_features();
std::vector<config::Layer> efficientnet_features(Image image, double width, double depth,
                                                 double drop_path);
std::vector<config::Layer> mobilenet_v3_features(Image image, double alpha, bool large,
                                                 double drop_path);
std::vector<config::Layer> mobilenet_v3_top(double alpha, bool large, std::int64_t classes);
std::vector<config::Layer> convnext_tiny_features(double drop_path);

// The position of a layer in Keras's model, if it differs from ours, as in ConvNeXt.
struct KerasPlace {
  std::string model;      // the Sequential that the layer lies in; "" for the model itself
  bool is_dense = false;  // a Dense of pixels in place of a 1x1 convolution
};
KerasPlace place_in_keras(const std::string& layer);
// Returns whether Keras's model starts with a Normalization layer that has weights.
bool has_keras_normalization(const config::Backbone& backbone);

// Returns all layers of a backbone for this image. With the top, the last one gives `classes`
// logits.
std::vector<config::Layer> backbone_layers(const config::Backbone& backbone, Image image,
                                           std::int64_t classes);

// Returns for each layer whether it is frozen. Adds an error for a pattern, or a slice among
// several entries, that matches no layer.
std::vector<bool> frozen_layers(const config::Backbone& backbone,
                                const std::vector<std::string>& names,
                                std::vector<Diagnostic>& errors);

// ---- Shared by the lists ----

// Makes a layer. Its input is the layer before it, unless `inputs` names others.
inline config::Layer named(std::string name, config::LayerKind kind,
                           std::vector<std::string> inputs = {}) {
  return {std::move(kind), std::move(name), std::move(inputs), {}};
}

}  // namespace trainer::model
