// Networks of other libraries as layer lists. Internal to model.
//
// Each family has a file and a function below, and each network a row in its table. Names,
// shapes and paddings are those of the variant's library. The order is that of Keras's
// `model.layers`, without the input layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/layers.h"
#include "config/sections/model.h"

namespace trainer::model {

struct Image {
  std::int64_t height = 0, width = 0;
};

// The layers of a backbone.
struct Network {
  std::vector<config::Layer> layers;
  // The group of optimizer.layer_decay of each layer: a block, as in timm, or kHeadGroup.
  std::vector<int> groups;
  bool has_named_pooling = true;                // the pooling in place of the classifier has a name
  std::optional<config::Layer> last_norm = {};  // follows that pooling
  bool has_own_pooling = false;                 // the pooling is among the layers
  // The layers that are 1x1 convolutions here and linear in PyTorch's libraries, or the reverse.
  std::vector<std::string> reshaped = {};
};
inline constexpr int kHeadGroup = -1;  // the last group, which the layers after a backbone share

// Each returns the network of its family, with the classifier if the backbone includes it; no
// layers for a backbone of another family.
Network vgg(const config::Backbone& backbone, Image image, std::int64_t classes);
Network resnet(const config::Backbone& backbone, Image image, std::int64_t classes);
Network densenet(const config::Backbone& backbone, Image image, std::int64_t classes);
Network inverted_residuals(const config::Backbone& backbone, Image image, std::int64_t classes);
Network convnext(const config::Backbone& backbone, Image image, std::int64_t classes);
Network regnet(const config::Backbone& backbone, Image image, std::int64_t classes);
Network mobilenet_v4(const config::Backbone& backbone, Image image, std::int64_t classes);
Network xception(const config::Backbone& backbone, Image image, std::int64_t classes);
Network vit(const config::Backbone& backbone, Image image, std::int64_t classes);

// The position of a layer in Keras's model, if it differs from ours, as in ConvNeXt.
struct KerasPlace {
  std::string model;      // the Sequential that the layer lies in; "" for the model itself
  bool is_dense = false;  // a Dense of pixels in place of a 1x1 convolution
};
KerasPlace place_in_keras(const std::string& layer);
// Returns whether Keras's model starts with a Normalization layer that has weights.
bool has_keras_normalization(const config::Backbone& backbone);

// Returns the number that has to divide the height and width of the image: the patches of ViT.
std::int64_t find_patch_size(config::Backbone::Name name);

// Returns the backbone for this image. With the top, the last layer gives `classes` logits.
Network build_backbone(const config::Backbone& backbone, Image image, std::int64_t classes);

// Returns for each layer whether it is frozen. Adds an error for a pattern, or a slice among
// several entries, that matches no layer.
std::vector<bool> frozen_layers(const config::Backbone& backbone,
                                const std::vector<std::string>& names,
                                std::vector<Diagnostic>& errors);

}  // namespace trainer::model
