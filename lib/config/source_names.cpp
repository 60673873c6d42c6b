#include "config/source_names.h"

#include <string>
#include <string_view>

#include "config/pretrained.h"

namespace trainer::config {
namespace {

struct Rename {
  std::string_view start;  // of the name
  std::string_view from, to;
  bool is_saved = false;  // the library saves `from`
};
constexpr Rename kRenames[] = {
    {"vit.", ".layers.", ".encoder.layer."},
    {"vit.", ".mlp.fc1.", ".intermediate.dense."},
    {"vit.", ".mlp.fc2.", ".output.dense."},
    {"", ".attention.q_proj.", ".attention.attention.query."},
    {"", ".attention.k_proj.", ".attention.attention.key."},
    {"", ".attention.v_proj.", ".attention.attention.value."},
    {"", ".attention.o_proj.", ".attention.output.dense."},
    {"encoder.layers.", ".in_proj_", ".in_proj.", true},
    {"encoder.layers.", ".mlp.linear_1.", ".mlp.0."},
    {"encoder.layers.", ".mlp.linear_2.", ".mlp.3."},
};

}  // namespace

void use_published_names(const Backbone& backbone, std::vector<checkpoint::Tensor>& tensors) {
  if (!has_class_token(backbone.name)) return;
  const std::string layer = first_block_layer(backbone);
  const std::string base = find_variant(backbone) == Backbone::Variant::kTransformers
                               ? layer.substr(0, layer.find('.') + 1)
                               : "";
  for (checkpoint::Tensor& tensor : tensors) {
    std::string& name = tensor.name;
    if (name.find('/') != std::string::npos) continue;
    if (!name.starts_with(base) && !name.starts_with("classifier.")) name.insert(0, base);
    for (const Rename& row : kRenames) {
      const std::size_t at = name.starts_with(row.start) ? name.find(row.from) : std::string::npos;
      if (at != std::string::npos) name.replace(at, row.from.size(), row.to);
    }
  }
}

void use_saved_names(const Backbone& backbone, std::vector<checkpoint::Tensor>& tensors) {
  if (!has_class_token(backbone.name)) return;
  for (checkpoint::Tensor& tensor : tensors) {
    std::string& name = tensor.name;
    for (const Rename& row : kRenames) {
      if (!row.is_saved || !name.starts_with(row.start)) continue;
      const std::size_t at = name.find(row.to);
      if (at != std::string::npos) name.replace(at, row.to.size(), row.from);
    }
  }
}

}  // namespace trainer::config
