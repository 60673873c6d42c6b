// The ImageNet weights of a backbone: their files and the preprocessing that they need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace trainer::config {

// The value of model.backbone.weights that stands for the ImageNet weights.
inline constexpr const char* kImagenet = "imagenet";

// Returns every backbone in each of its variants.
std::vector<Backbone> list_backbones();
// Returns the variants of a backbone. The first is that of a config that names neither a variant
// nor a file of weights, and of a run that was recorded without the key.
std::vector<Backbone::Variant> list_variants(Backbone::Name name);
// Returns the variant of the backbone, or the first of its name where none is set.
Backbone::Variant find_variant(const Backbone& backbone);
// Returns the first layer of the backbone's blocks. Variants of a name that share it have the same
// names of all features, and the same network unless one of them is timm_tf.
const char* first_block_layer(const Backbone& backbone);
// Returns the layer of the logits where variants with the same features differ in it; else "".
const char* distinctive_logits_layer(const Backbone& backbone);

// Returns whether the backbone is ViT or DINOv2, which have a class token.
bool has_class_token(Backbone::Name name);

// Returns the name of the file that keras.applications or torchvision fetches for a backbone; "" if
// there is none.
std::string imagenet_weight_file(const Backbone& backbone);
// Returns the name of the network in Python: "VGG16", or "keras.applications.VGG16" with its
// module.
const char* python_class(const Backbone& backbone);
std::string python_name(const Backbone& backbone);
// Returns the preset of data.preprocess with which the weights of the backbone were trained.
PreprocessPreset default_preprocess(const Backbone& backbone);
// Returns the height and width of the images with which the weights of the backbone were trained.
std::int64_t default_image_side(Backbone::Name name);
// Returns the folders that are searched for weight files, each once: $WEIGHTS_DIR, ./weights and
// ~/.keras/models.
std::vector<std::string> weight_folders(const Environment& environment);

// Returns a line for each of these folders that cannot be searched: "/home/u/.keras/models cannot
// be searched for weights: Permission denied".
std::vector<std::string> describe_unreadable_folders(const Environment& environment);

// Returns the folder of downloads: $WEIGHTS_DIR; else `weights`, where it exists; else that of
// Keras, ~/.keras/models, in which all projects of the user find the file.
std::string download_folder(const Environment& environment);

// Replaces `weights: imagenet` by a file, and sets the variant to that of the file: Keras's in
// weight_folders(), or torchvision's, which may be saved as safetensors, there or in the cache of
// torch.hub. The word stays if there is no file.
void find_imagenet_weights(Config& config, const Environment& environment);
// Returns a sentence on how to get the file of the ImageNet weights from Keras or torchvision.
std::string weights_advice(const Backbone& backbone, const Environment& environment);
// Returns the error for missing ImageNet weights: the folders that were searched, and how to get
// the file. `more` are further folders that were searched.
std::string missing_imagenet_weights(const Backbone& backbone, const Environment& environment,
                                     const std::vector<std::string>& more = {});

}  // namespace trainer::config
