// The ImageNet weights of a backbone: their files and the preprocessing that they need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// The value of model.backbone.weights that stands for the ImageNet weights.
inline constexpr const char* kImagenet = "imagenet";

// Returns whether a backbone has torchvision's names and weights, because Keras has no such
// network.
bool is_from_torchvision(Backbone::Name name);
// Returns the name of the file that keras.applications fetches for a backbone, or that of
// torchvision's weights saved as safetensors.
std::string imagenet_weight_file(const Backbone& backbone);
// Returns the name of the network in Python: "VGG16" of keras.applications.VGG16.
const char* keras_class(Backbone::Name name);
// Returns the preset of data.preprocess with which the weights of the backbone were trained, which
// is that of preprocess_input() in keras.applications.
PreprocessPreset default_preprocess(Backbone::Name name);
// Returns the height and width of the images with which the weights of the backbone were trained.
std::int64_t default_image_side(Backbone::Name name);
// Returns the folders that are searched for weight files, each once: $WEIGHTS_DIR, ./weights and
// ~/.keras/models.
std::vector<std::string> weight_folders(const Environment& environment);

// Returns the folder of downloads: $WEIGHTS_DIR; else `weights`, where it exists; else that of
// Keras, ~/.keras/models, in which all projects of the user find the file.
std::string download_folder(const Environment& environment);

// Replaces `weights: imagenet` by a file: Keras's in weight_folders(), or for vgg16 torchvision's
// in the cache of torch.hub, saved as safetensors, whose preprocessing is then set too. The word
// stays if there is no file.
void find_imagenet_weights(Config& config, const Environment& environment);
// Returns the error for missing ImageNet weights: the folders that were searched, and how to get
// the file. `more` are further folders that were searched.
std::string missing_imagenet_weights(const Backbone& backbone, const Environment& environment,
                                     const std::vector<std::string>& more = {});

}  // namespace trainer::config
