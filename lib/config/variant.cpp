#include "config/variant.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "config/keys.h"
#include "config/pretrained.h"

namespace trainer::config {
namespace {

using Variant = Backbone::Variant;

// Returns the file that the weights of the backbone come from; "" if there is none.
std::string find_file(const Model& model) {
  const std::string& path = model.weights.empty() ? model.backbone->weights : model.weights;
  std::error_code error;
  return std::filesystem::exists(path, error) ? path : "";
}

// Returns the tensors of a weight file without their values; none if it cannot be read.
std::vector<checkpoint::Tensor> read_shapes(const std::string& file, const std::string& entry) {
  try {
    return checkpoint::read_weights(checkpoint::find_weight_file(file),
                                    {entry, checkpoint::Content::kShapes})
        .tensors;
  } catch (const DataError&) {
    return {};
  }
}

// Returns whether a tensor belongs to a layer: "layer1.0.conv1.weight" of PyTorch, or
// "model/conv1_conv/kernel" and "conv1_conv/0" of Keras and of this program.
bool belongs_to(const std::string& tensor, const std::string& layer) {
  const std::size_t slash = tensor.rfind('/');
  if (slash == std::string::npos) {
    return tensor.starts_with(layer + '.') &&
           tensor.find('.', layer.size() + 1) == std::string::npos;
  }
  const std::string above = tensor.substr(0, slash);
  return above == layer || above.ends_with('/' + layer);
}

// Returns the variant whose names the file has; nothing for names of no variant.
std::optional<Variant> find_variant_of_file(const Backbone& backbone, const std::string& file,
                                            const std::string& entry) {
  const std::vector<checkpoint::Tensor> tensors = read_shapes(file, entry);
  for (const Variant variant : list_variants(backbone.name)) {
    Backbone candidate = backbone;
    candidate.variant = variant;
    const std::string layer = first_block_layer(candidate);
    const bool is_found = std::ranges::any_of(
        tensors, [&](const checkpoint::Tensor& tensor) { return belongs_to(tensor.name, layer); });
    if (is_found) return variant;
  }
  return std::nullopt;
}

}  // namespace

void resolve_variant(LoadedConfig& loaded) {
  Model& model = loaded.config.model;
  if (!model.backbone) return;
  Backbone& backbone = *model.backbone;
  const std::string file = find_file(model);
  std::optional<Variant> of_file;
  if (!file.empty() && list_variants(backbone.name).size() > 1) {
    of_file = find_variant_of_file(backbone, file, model.weights_entry);
  }
  if (!backbone.variant) {
    backbone.variant = of_file ? *of_file : find_variant(backbone);
  } else if (of_file && *of_file != *backbone.variant) {
    throw ConfigError(loaded.origins.at(keys::kBackboneVariant).loc, keys::kBackboneVariant,
                      ": is ", spell(*backbone.variant), ", but ", file, " has weights of ",
                      spell(*of_file), "'s ", spell(backbone.name),
                      ", another network; remove the key, or give a file of ",
                      spell(*backbone.variant));
  }
}

}  // namespace trainer::config
