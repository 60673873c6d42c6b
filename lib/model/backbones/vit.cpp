// ViT (Dosovitskiy et al., arXiv:2010.11929), and DINOv2 (Oquab et al., arXiv:2304.07193), which is
// ViT with layer scale and optionally registers, of timm, torchvision and transformers.
//
// The tokens are the registers, the class token and the patches, in this order, which is not that
// of the libraries: attention does not depend on it.
#include <algorithm>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Pooling = config::Backbone::Pooling;
using Variant = config::Backbone::Variant;

constexpr int kVitBlocks = 12;
constexpr std::int64_t kMlpRatio = 4;

struct VitSpec {
  Name name;
  std::int64_t patch, channels, heads;
  bool is_dinov2 = false;
  std::int64_t registers = 0;
};
constexpr VitSpec kVits[] = {
    {Name::kVitTinyPatch16, 16, 192, 3},          {Name::kVitSmallPatch16, 16, 384, 6},
    {Name::kVitBasePatch16, 16, 768, 12},         {Name::kDinoV2Small, 14, 384, 6, true},
    {Name::kDinoV2SmallReg, 14, 384, 6, true, 4}, {Name::kDinoV2Base, 14, 768, 12, true},
    {Name::kDinoV2BaseReg, 14, 768, 12, true, 4},
};

// The names of the layers with weights, in which the variants differ; see fill_in().
struct VitNames {
  Variant variant;
  bool is_dinov2;
  const char *patches, *class_token, *positions, *registers;
  const char *block, *norm1, *qkv, *projection, *scale1, *norm2, *expand, *reduce, *scale2;
  const char *norm, *head;
  double epsilon = 1e-6;
  const char *query = "", *key = "", *value = "";  // in place of qkv, one layer each
  const char* pooled_norm = "";  // in place of the norm, after the mean of the patches
  // With registers, the class token has no position.
  bool skips_class_position = false;
  bool joins_mean = false;  // the head reads the class token and the mean of the patches
};
constexpr VitNames kVitNames[] = {
    {.variant = Variant::kTimm,
     .is_dinov2 = false,
     .patches = "patch_embed.proj",
     .class_token = "cls_token",
     .positions = "pos_embed",
     .registers = "reg_token",
     .block = "blocks.{b}.",
     .norm1 = "norm1",
     .qkv = "attn.qkv",
     .projection = "attn.proj",
     .scale1 = "ls1.gamma",
     .norm2 = "norm2",
     .expand = "mlp.fc1",
     .reduce = "mlp.fc2",
     .scale2 = "ls2.gamma",
     .norm = "norm",
     .head = "head",
     .pooled_norm = "fc_norm",
     .skips_class_position = true},
    {.variant = Variant::kTorchvision,
     .is_dinov2 = false,
     .patches = "conv_proj",
     .class_token = "class_token",
     .positions = "encoder.pos_embedding",
     .registers = "",
     .block = "encoder.layers.encoder_layer_{b}.",
     .norm1 = "ln_1",
     .qkv = "self_attention.in_proj",
     .projection = "self_attention.out_proj",
     .scale1 = "",
     .norm2 = "ln_2",
     .expand = "mlp.0",
     .reduce = "mlp.3",
     .scale2 = "",
     .norm = "encoder.ln",
     .head = "heads.head"},
    {.variant = Variant::kTransformers,
     .is_dinov2 = false,
     .patches = "vit.embeddings.patch_embeddings.projection",
     .class_token = "vit.embeddings.cls_token",
     .positions = "vit.embeddings.position_embeddings",
     .registers = "",
     .block = "vit.encoder.layer.{b}.",
     .norm1 = "layernorm_before",
     .qkv = "",
     .projection = "attention.output.dense",
     .scale1 = "",
     .norm2 = "layernorm_after",
     .expand = "intermediate.dense",
     .reduce = "output.dense",
     .scale2 = "",
     .norm = "vit.layernorm",
     .head = "classifier",
     .epsilon = 1e-12,
     .query = "attention.attention.query",
     .key = "attention.attention.key",
     .value = "attention.attention.value"},
    {.variant = Variant::kTransformers,
     .is_dinov2 = true,
     .patches = "embeddings.patch_embeddings.projection",
     .class_token = "embeddings.cls_token",
     .positions = "embeddings.position_embeddings",
     .registers = "embeddings.register_tokens",
     .block = "encoder.layer.{b}.",
     .norm1 = "norm1",
     .qkv = "",
     .projection = "attention.output.dense",
     .scale1 = "layer_scale1.lambda1",
     .norm2 = "norm2",
     .expand = "mlp.fc1",
     .reduce = "mlp.fc2",
     .scale2 = "layer_scale2.lambda1",
     .norm = "layernorm",
     .head = "classifier",
     .query = "attention.attention.query",
     .key = "attention.attention.key",
     .value = "attention.attention.value",
     .joins_mean = true},
};

// Builds the layers of a network.
class Vit {
 public:
  Vit(const VitSpec& spec, const VitNames& names, Image image)
      : spec_(spec),
        n_(names),
        rows_(image.height / spec.patch),
        columns_(image.width / spec.patch) {
    if (n_.variant == Variant::kTransformers && spec.is_dinov2) {
      start_ = spec.registers > 0 ? "dinov2_with_registers." : "dinov2.";
    }
  }

  Network build(const config::Backbone& backbone, std::int64_t classes) && {
    list_.begin_group();
    embed();
    DropPathRates rates(backbone.drop_path.value_or(0), kVitBlocks - 1);
    for (int block = 0; block < kVitBlocks; ++block) {
      list_.begin_group();
      add_block(start_ + fill_in(n_.block, {0, block}), rates.next());
    }
    const Pooling pooling = backbone.include_top ? Pooling::kToken : backbone.pooling;
    const bool is_mean = pooling == Pooling::kAverage || pooling == Pooling::kMax;
    const bool norms_last = is_mean && *n_.pooled_norm != '\0';
    if (!norms_last) norm(start_ + n_.norm);
    if (pooling == Pooling::kToken) {
      pool_class_token(backbone.include_top && n_.joins_mean);
    } else {
      pool_patches(pooling);
    }
    list_.begin_head();
    if (norms_last) norm(n_.pooled_norm);
    if (backbone.include_top) dense(n_.head, classes);
    Network network = list_.take();
    network.has_own_pooling = true;
    return network;
  }

 private:
  void embed() {
    ConvolutionSpec patches{spec_.channels, spec_.patch, spec_.patch, {}};
    patches.bias = true;
    list_.convolution(start_ + n_.patches, patches);
    list_.add("patch_tokens", config::ReshapeLayer{{rows_ * columns_, spec_.channels}});
    const bool skips_class = n_.skips_class_position && spec_.registers > 0;
    if (skips_class) list_.add(start_ + n_.positions, config::PositionEmbeddingLayer{});
    list_.add(start_ + n_.class_token, config::PrependTokensLayer{});
    if (!skips_class) list_.add(start_ + n_.positions, config::PositionEmbeddingLayer{});
    if (spec_.registers > 0) {
      config::PrependTokensLayer registers;
      registers.count = spec_.registers;
      list_.add(start_ + n_.registers, registers);
    }
  }

  void add_block(const std::string& name, double drop_path) {
    const std::string input = list_.last();
    norm(name + n_.norm1);
    add_queries(name);
    list_.add(name + "attention", config::DotProductAttentionLayer{spec_.heads});
    dense(name + n_.projection, spec_.channels);
    end_branch(name, "1", n_.scale1, drop_path, input);
    const std::string between = list_.last();
    norm(name + n_.norm2);
    dense(name + n_.expand, kMlpRatio * spec_.channels);
    list_.activate(name + "gelu", config::Activation::kGelu);
    dense(name + n_.reduce, spec_.channels);
    end_branch(name, "2", n_.scale2, drop_path, between);
  }

  // Adds the layers that make queries, keys and values of the last layer.
  void add_queries(const std::string& name) {
    if (*n_.query == '\0') {
      dense(name + n_.qkv, 3 * spec_.channels);
      return;
    }
    const std::string input = list_.last();
    LayerList::Names parts;
    for (const char* part : {n_.query, n_.key, n_.value}) {
      dense(name + part, spec_.channels, {input});
      parts.push_back(list_.last());
    }
    list_.add(name + "qkv", config::ConcatenateLayer{}, parts);
  }

  void end_branch(const std::string& name, const std::string& number, const char* scale,
                  double drop_path, const std::string& input) {
    if (spec_.is_dinov2) list_.add(name + scale, config::LayerScaleLayer{1e-5});
    list_.drop_path(name + "drop_path" + number, drop_path);
    list_.add(name + "add" + number, config::AddLayer{}, {input, list_.last()});
  }

  // Ends in the class token, and with `joins_mean` in this and the mean of the patches.
  void pool_class_token(bool joins_mean) {
    const std::string tokens = list_.last();
    if (joins_mean) pool_patches(Pooling::kAverage);
    const std::string mean = list_.last();
    list_.add("class_token_row", config::SliceTokensLayer{spec_.registers, spec_.registers + 1},
              {tokens});
    list_.add("pooled_token", config::FlattenLayer{});
    if (joins_mean) list_.add("pooled", config::ConcatenateLayer{}, {list_.last(), mean});
  }

  // Ends in the patches as an image, or in their mean or maximum.
  void pool_patches(Pooling pooling) {
    list_.add("patches", config::SliceTokensLayer{spec_.registers + 1, {}});
    list_.add("patch_grid", config::ReshapeLayer{{rows_, columns_, spec_.channels}});
    if (pooling == Pooling::kAverage) list_.add("avg_pool", config::GlobalAveragePoolLayer{});
    if (pooling == Pooling::kMax) list_.add("max_pool", config::GlobalMaxPoolLayer{});
  }

  void norm(const std::string& name) {
    config::LayerNormLayer norm;
    norm.epsilon = n_.epsilon;
    list_.add(name, norm);
  }

  void dense(const std::string& name, std::int64_t units, LayerList::Names inputs = {}) {
    config::DenseLayer dense;
    dense.units = units;
    dense.kernel_initializer = config::PositionEmbeddingLayer{}.initializer;
    list_.add(name, dense, std::move(inputs));
  }

  const VitSpec& spec_;
  const VitNames& n_;
  const std::int64_t rows_, columns_;
  std::string start_;  // of the names of all layers but the head
  LayerList list_;
};

}  // namespace

std::int64_t find_patch_size(config::Backbone::Name name) {
  const auto* spec = std::ranges::find(kVits, name, &VitSpec::name);
  return spec == std::end(kVits) ? 1 : spec->patch;
}

Network vit(const config::Backbone& backbone, Image image, std::int64_t classes) {
  const auto* spec = std::ranges::find(kVits, backbone.name, &VitSpec::name);
  if (spec == std::end(kVits)) return {};
  const Variant variant = config::find_variant(backbone);
  const VitNames& names = *std::ranges::find_if(kVitNames, [&](const VitNames& row) {
    return row.variant == variant &&
           (variant != Variant::kTransformers || row.is_dinov2 == spec->is_dinov2);
  });
  return Vit(*spec, names, image).build(backbone, classes);
}

}  // namespace trainer::model
