// Exports a trained model to the library that its backbone comes from.
#pragma once

#include <string>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"
#include "config/config.h"
#include "model/build_model.h"

namespace trainer::model {

// The functions write the tensors of a checkpoint, whose weight averages are used if it has any,
// with the names and layouts of the library. They throw ConfigError for a model that is not a
// network of the library, whose pooling and one linear layer follow the features, with the name of
// the first layer that differs; for a variant that is not of the library; and DataError if a tensor
// of the model is missing.

// Writes a state dict of the variant's library (torchvision, timm, transformers) as safetensors.
void export_torch(const config::Config& config, const SampleSpec& sample,
                  const std::vector<checkpoint::Tensor>& tensors, const Path& path,
                  const std::vector<std::string>& classes = {});
// Writes model.safetensors and config.json, with which timm.create_model("local-dir:FOLDER",
// pretrained=True) opens the folder, for the variants of timm and for networks of torchvision that
// timm has too. Also throws ConfigError for channels in reversed order, which timm does not have.
void export_timm(const config::Config& config, const SampleSpec& sample,
                 const std::vector<checkpoint::Tensor>& tensors, const Path& folder,
                 const std::vector<std::string>& classes = {});

}  // namespace trainer::model
