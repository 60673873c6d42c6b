#include "config/variant.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "checkpoint/weights.h"
#include "config/keys.h"
#include "config/pretrained.h"
#include "config/source_names.h"
#include "config/weight_table.h"

namespace trainer::config {
namespace {

using Variant = Backbone::Variant;

// Returns the file that the weights of the backbone come from; "" if there is none.
std::string find_file(const Model& model) {
  const std::string& path = model.weights.empty() ? model.backbone->weights : model.weights;
  return path_exists(path) ? path : "";
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
  std::vector<Variant> variants;
  for (const Variant variant : list_variants(backbone.name)) {
    Backbone candidate = backbone;
    candidate.variant = variant;
    std::vector<checkpoint::Tensor> published = tensors;
    use_published_names(candidate, published);
    const auto has_layer = [&](const std::string& layer) {
      return std::ranges::any_of(published, [&](const checkpoint::Tensor& tensor) {
        return belongs_to(tensor.name, layer);
      });
    };
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

// Returns whether the table has weights of these networks that want other images than each other.
bool differ_in_preprocessing(Backbone::Name name, const std::vector<Variant>& variants) {
  const WeightRow* first = nullptr;
  for (const WeightRow& row : weight_table()) {
    if (row.backbone != name || row.side == 0 || !contains(variants, row.variant)) continue;
    if (first == nullptr) first = &row;
    const auto settings = [](const WeightRow& of) {
      return std::tie(of.crop_fraction, of.interpolation, of.preset);
    };
    if (settings(row) != settings(*first)) return true;
  }
  return false;
}

// Returns the warning about a file of which only the names of its tensors are known; "" for none.
std::string warn_of_preprocessing(const Config& config, const std::string& file,
                                  const std::vector<Variant>& variants) {
  const Backbone& backbone = *config.model.backbone;
  const bool is_given = config.data.preprocess || config.data.normalize;
  if (is_given || !differ_in_preprocessing(backbone.name, variants)) return "";
  return concat(file, ": the names in this file fit weights of ", spell_all(variants),
                " that were trained on images prepared in different ways, and neither its name nor "
                "a config.json beside it names one; this run uses data.preprocess: ",
                spell(default_preprocess(backbone)),
                ". Give the weights by their name (`trainer models ", spell(backbone.name),
                "` lists them), or set data.preprocess, data.interpolation and data.fit");
}

}  // namespace

void resolve_variant(LoadedConfig& loaded, WeightSource& source) {
  Model& model = loaded.config.model;
  Backbone& backbone = *model.backbone;
  const std::string file = find_file(model);
  std::vector<Variant> of_file;
  if (!file.empty() && list_variants(backbone.name).size() > 1) {
    of_file = find_variants_of_file(backbone, file, model.weights_entry);
  }
  const auto fail = [&](const char* key, const auto&... parts) {
    throw ConfigError(loaded.origins.at(key).loc, key, ": ", parts...);
  };
  if (source.backbone && *source.backbone != backbone.name) {
    fail(model.weights.empty() ? keys::kBackboneWeights : keys::kWeights, source.origin,
         " has weights of ", spell(*source.backbone), ", but model.backbone is ",
         spell(backbone.name), "; `trainer models ", spell(backbone.name),
         "` lists the names that fit");
  }
  const bool is_name = source.backbone.has_value();
  if (!is_name && source.variant && !of_file.empty() && !contains(of_file, *source.variant)) {
    source = {};
  }
  if (backbone.variant) {
    const bool is_tf = *backbone.variant == Variant::kTimmTf || source.variant == Variant::kTimmTf;
    if (is_name && is_tf && source.variant != backbone.variant) {
      fail(keys::kBackboneVariant, "is ", spell(*backbone.variant), ", but ", source.origin,
           " is a network of ", spell(*source.variant), "; remove the key");
    }
    if (of_file.empty() || contains(of_file, *backbone.variant)) return;
    fail(keys::kBackboneVariant, "is ", spell(*backbone.variant), ", but ", file,
         " has weights of ", spell(of_file.front()), "'s ", spell(backbone.name),
         ", another network; remove the key, or give a file of ", spell(*backbone.variant));
  }
  if (source.variant) {
    backbone.variant = source.variant;
    return;
  }
  if (of_file.size() > 1 && contains(of_file, Variant::kTimmTf)) {
    fail(keys::kBackboneVariant, "the names in ", file,
         " fit networks that differ in padding and epsilon; set it to ", spell_all(of_file));
  }
  backbone.variant = of_file.empty() ? find_variant(backbone) : of_file.front();
  if (!source.preprocessing) {
    model.weights_warning = warn_of_preprocessing(loaded.config, file, of_file);
  }
}

}  // namespace trainer::config
