// Files with weights that a backbone learnt from ImageNet.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// The value of model.backbone.weights that stands for such a file.
inline constexpr const char* kImagenet = "imagenet";

// Whether a backbone is torchvision's, with its names and weights; Keras has none of these.
bool is_of_torchvision(Backbone::Name name);
// The name of the file that keras.applications fetches for a backbone, or of torchvision's weights
// saved as safetensors.
std::string imagenet_weight_file(const Backbone& backbone);
// Its spelling in Python: "VGG16" of keras.applications.VGG16.
const char* keras_class(Backbone::Name name);
// Where weight files are looked for: $WEIGHTS_DIR, ./weights and ~/.keras/models.
std::vector<std::string> weight_folders(const Environment& environment);

// Replaces `weights: imagenet` by the file that is found: that of Keras in weight_folders(), else
// for vgg16 torchvision's in the cache of torch.hub, saved as safetensors, for which the images are
// then preprocessed. Without one the word stays.
void find_imagenet_weights(Config& config, const Environment& environment);
// Where that looks, and how to get the file. `more`: folders that were searched besides.
std::string missing_imagenet_weights(const Backbone& backbone, const Environment& environment,
                                     const std::vector<std::string>& more = {});

}  // namespace trainer::config
