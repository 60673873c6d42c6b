#include "config/variant.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/text.h"
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

// Returns the variants whose names the file has, among them those of the classifier if the backbone
// includes it; none for names of no variant.
std::vector<Variant> find_variants_of_file(const Backbone& backbone, const std::string& file,
                                           const std::string& entry) {
  const std::vector<checkpoint::Tensor> tensors = read_shapes(file, entry);
  const auto has_layer = [&](const std::string& layer) {
    return std::ranges::any_of(
        tensors, [&](const checkpoint::Tensor& tensor) { return belongs_to(tensor.name, layer); });
  };
  std::vector<Variant> variants;
  for (const Variant variant : list_variants(backbone.name)) {
    Backbone candidate = backbone;
    candidate.variant = variant;
    if (!has_layer(first_block_layer(candidate))) continue;
    const std::string logits = distinctive_logits_layer(candidate);
    if (backbone.include_top && !logits.empty() && has_layer(logits)) return {variant};
    variants.push_back(variant);
  }
  return variants;
}

std::string spell_all(const std::vector<Variant>& variants) {
  std::vector<std::string> words;
  for (const Variant variant : variants) words.emplace_back(spell(variant));
  return join(words, " or ");
}

bool contains(const std::vector<Variant>& variants, Variant variant) {
  return std::ranges::find(variants, variant) != variants.end();
}

}  // namespace

void resolve_variant(LoadedConfig& loaded) {
  Model& model = loaded.config.model;
  if (!model.backbone) return;
  Backbone& backbone = *model.backbone;
  const std::string file = find_file(model);
  std::vector<Variant> of_file;
  if (!file.empty() && list_variants(backbone.name).size() > 1) {
    of_file = find_variants_of_file(backbone, file, model.weights_entry);
  }
  const auto fail = [&](const auto&... parts) {
    throw ConfigError(loaded.origins.at(keys::kBackboneVariant).loc, keys::kBackboneVariant, ": ",
                      parts...);
  };
  if (backbone.variant) {
    if (of_file.empty() || contains(of_file, *backbone.variant)) return;
    fail("is ", spell(*backbone.variant), ", but ", file, " has weights of ",
         spell(of_file.front()), "'s ", spell(backbone.name),
         ", another network; remove the key, or give a file of ", spell(*backbone.variant));
  }
  if (of_file.size() > 1 && contains(of_file, Variant::kTimmTf)) {
    fail("the names in ", file, " fit networks that differ in padding and epsilon; set it to ",
         spell_all(of_file));
  }
  backbone.variant = of_file.empty() ? find_variant(backbone) : of_file.front();
}

}  // namespace trainer::config
