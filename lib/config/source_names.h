// The names that tensors have in the files that libraries publish.
#pragma once

#include <vector>

#include "checkpoint/tensor_file.h"
#include "config/sections/model.h"

namespace trainer::config {

// Renames the tensors of a file of ViT or DINOv2 whose names are those of another version of the
// variant's library, or of its model without a head, to those of the files that the library
// publishes: "layers.0.attention.q_proj.weight" of transformers 5 to
// "vit.encoder.layer.0.attention.attention.query.weight". Other tensors keep their names.
void use_published_names(const Backbone& backbone, std::vector<checkpoint::Tensor>& tensors);

// The reverse, for the names of layers here: renames the tensors of a state dict to the names with
// which the variant's library saves them.
void use_saved_names(const Backbone& backbone, std::vector<checkpoint::Tensor>& tensors);

}  // namespace trainer::config
