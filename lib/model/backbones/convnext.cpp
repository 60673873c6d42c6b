// ConvNeXt (Liu et al., arXiv:2201.03545) of keras.applications, torchvision, timm and
// transformers, and ConvNeXt V2 (Woo et al., arXiv:2301.00808) of timm and transformers, which has
// global response normalization in place of layer scale; without Keras's layer that prepares the
// image, which data.preprocess does. Dense layers of pixels are 1x1 convolutions here.
#include <algorithm>
#include <array>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Variant = config::Backbone::Variant;

struct ConvNeXtSpec {
  Name name;
  std::array<int, 4> blocks;  // of each stage
  std::int64_t channels;      // of the first stage; the next ones double them
  bool is_v2 = false;
  bool is_conv_in_timm = false;  // timm's pixels pass convolutions in place of linear layers
};
constexpr ConvNeXtSpec kConvNeXts[] = {
    {Name::kConvNeXtTiny, {3, 3, 9, 3}, 96},
    {Name::kConvNeXtSmall, {3, 3, 27, 3}, 96},
    {Name::kConvNeXtBase, {3, 3, 27, 3}, 128},
    {Name::kConvNeXtV2Atto, {2, 2, 6, 2}, 40, true, true},
    {Name::kConvNeXtV2Femto, {2, 2, 6, 2}, 48, true, true},
    {Name::kConvNeXtV2Pico, {2, 2, 6, 2}, 64, true, true},
    {Name::kConvNeXtV2Nano, {2, 2, 8, 2}, 80, true, true},
    {Name::kConvNeXtV2Tiny, {3, 3, 9, 3}, 96, true},
};

// The names of the layers with weights, in which the variants differ; see fill_in(). Those of Keras
// follow the name of the network, and those of transformers, except the logits, that of the model.
struct ConvNeXtNames {
  Variant variant;
  const char *stem, *stem_norm, *down_norm, *down;
  const char *block, *depthwise, *norm, *expand, *reduce, *scale;
  const char *top_norm, *logits;
  const char* norm_of_features;         // of the pooled features, without the top
  double top_epsilon = 1e-6;            // of these two norms
  const char* response_norm = nullptr;  // V2's
};
constexpr ConvNeXtNames kConvNeXtNames[] = {
    {Variant::kKeras, "_stem_conv", "_stem_layernorm", "_downsampling_layernorm_{s}",
     "_downsampling_conv_{s}", "_stage_{s}_block_{b}_", "depthwise_conv", "layernorm",
     "pointwise_conv_1", "pointwise_conv_2", "layer_scale", "_head_layernorm", "_head_dense",
     "layer_normalization"},
    {Variant::kTorchvision, "features.0.0", "features.0.1", "features.{s}.0", "features.{s}.1",
     "features.{s}.{b}.", "block.0", "block.2", "block.3", "block.5", "layer_scale", "classifier.0",
     "classifier.2", "classifier.0"},
    {Variant::kTimm, "stem.0", "stem.1", "stages.{S}.downsample.0", "stages.{S}.downsample.1",
     "stages.{s}.blocks.{b}.", "conv_dw", "norm", "mlp.fc1", "mlp.fc2", "gamma", "head.norm",
     "head.fc", "head.norm", 1e-6, "mlp.grn"},
    {Variant::kTransformers, "embeddings.patch_embeddings", "embeddings.layernorm",
     "encoder.stages.{S}.downsampling_layer.0", "encoder.stages.{S}.downsampling_layer.1",
     "encoder.stages.{s}.layers.{b}.", "dwconv", "layernorm", "pwconv1", "pwconv2",
     "layer_scale_parameter", "layernorm", "classifier", "layernorm", 1e-12, "grn"},
};

config::LayerNormLayer layer_norm(double epsilon = 1e-6) {
  config::LayerNormLayer norm;
  norm.epsilon = epsilon;
  return norm;
}

// Adds a convolution of patches that do not overlap.
void patches(LayerList& list, const std::string& name, std::int64_t filters, std::int64_t size) {
  ConvolutionSpec spec{filters, size, size, {}};
  spec.bias = true;
  list.convolution(name, spec);
}

void add_block(LayerList& list, const ConvNeXtNames& n, const ConvNeXtSpec& spec,
               const std::string& name, std::int64_t channels, double drop_path) {
  const bool is_linear = n.variant != Variant::kTimm || !spec.is_conv_in_timm;
  const std::string input = list.last();
  config::ConvLayer depthwise;
  depthwise.filters = depthwise.groups = channels;
  depthwise.kernel_size = {7, 7};
  depthwise.padding.kind = config::Padding::Kind::kSame;
  list.add(name + n.depthwise, depthwise);
  list.add(name + n.norm, layer_norm());
  patches(list, name + n.expand, 4 * channels, 1);
  if (is_linear) list.mark_reshaped();
  list.activate(name + "gelu", config::Activation::kGelu);
  if (spec.is_v2) list.add(name + n.response_norm, config::GlobalResponseNormLayer{});
  patches(list, name + n.reduce, channels, 1);
  if (is_linear) list.mark_reshaped();
  if (!spec.is_v2) list.add(name + n.scale, config::LayerScaleLayer{});
  list.drop_path(name + "stochastic_depth", drop_path);
  list.add(name + "add", config::AddLayer{}, {input, list.last()});
}

}  // namespace

KerasPlace place_in_keras(const std::string& layer) {
  KerasPlace place;
  if (!layer.starts_with("convnext_")) return place;
  const std::size_t end = layer.find('_', std::string("convnext_").size());  // of "convnext_tiny"
  if (end == std::string::npos) return place;
  const std::string model = layer.substr(0, end), part = layer.substr(end + 1);
  if (part == "stem_conv" || part == "stem_layernorm") place.model = model + "_stem";
  if (part.starts_with("downsampling_")) {
    place.model = concat(model, "_downsampling_block_", part.substr(part.rfind('_') + 1));
  }
  place.is_dense = part.find("_pointwise_conv_") != std::string::npos;
  return place;
}

Network convnext(const config::Backbone& backbone, Image, std::int64_t classes) {
  const auto* spec = std::ranges::find(kConvNeXts, backbone.name, &ConvNeXtSpec::name);
  if (spec == std::end(kConvNeXts)) return {};
  const Variant variant = config::find_variant(backbone);
  const ConvNeXtNames& n = *std::ranges::find(kConvNeXtNames, variant, &ConvNeXtNames::variant);
  std::string start = variant == Variant::kKeras ? std::string(spell(spec->name)) : "";
  if (variant == Variant::kTransformers) start = spec->is_v2 ? "convnextv2." : "convnext.";
  int blocks = 0;
  for (const int count : spec->blocks) blocks += count;
  DropPathRates rates(backbone.drop_path.value_or(0), blocks - 1);
  LayerList list;
  std::int64_t channels = spec->channels;
  patches(list, start + n.stem, channels, 4);
  list.add(start + n.stem_norm, layer_norm());
  for (int stage = 0; stage < 4; ++stage, channels *= 2) {
    list.begin_group();  // the layers between stages belong to the block after them
    if (stage > 0) {
      // torchvision counts these layers among the stages.
      const Place between{variant == Variant::kTorchvision ? 2 * stage : stage - 1};
      list.add(start + fill_in(n.down_norm, between), layer_norm());
      patches(list, start + fill_in(n.down, between), channels, 2);
    }
    for (int i = 0; i < spec->blocks[stage]; ++i) {
      if (i > 0) list.begin_group();
      const Place place{variant == Variant::kTorchvision ? 2 * stage + 1 : stage, i};
      add_block(list, n, *spec, start + fill_in(n.block, place), channels, rates.next());
    }
  }
  if (backbone.include_top) {
    const bool is_keras = variant == Variant::kKeras;
    list.begin_head();
    list.add(is_keras ? start + "_head_gap" : "avg_pool", config::GlobalAveragePoolLayer{});
    list.add(start + n.top_norm, layer_norm(n.top_epsilon));
    config::DenseLayer logits;
    logits.units = classes;
    list.add(variant == Variant::kTransformers ? n.logits : start + n.logits, logits);
  }
  Network network = list.take();
  network.has_named_pooling = false;
  if (variant == Variant::kKeras) start.clear();
  network.last_norm = {layer_norm(n.top_epsilon), start + n.norm_of_features, {}, {}};
  return network;
}

}  // namespace trainer::model
