#include "model/token_layers.h"

#include <string_view>

#include "model/layers.h"

namespace trainer::model {
namespace {

using graph::ValueId;

// Returns the shape of the only input, which must be [batch, tokens, channels].
Shape require_tokens(const LayerSite& site) {
  const Shape& shape = site.graph[only_input(site)].shape;
  if (shape.rank() != 3) {
    fail(site, "expects tokens [batch, tokens, channels], but its input is ", to_string(shape),
         "; put patch_embedding before it, or reshape: [-1, CHANNELS]");
  }
  return shape;
}

// Adds a layer within this one, with names of parameters that begin with `part`.
ValueId add_part(LayerSite& site, const char* part, const config::LayerKind& layer, ValueId input) {
  LayerSite inner{site.graph, site.info, {input}, site.seed, site.dropouts, site.part + part};
  return add_layer(layer, inner);
}

}  // namespace

ValueId add(const config::PatchEmbeddingLayer& layer, LayerSite& site) {
  const config::Pair& size = layer.patch_size;
  if (const Shape x = site.graph[only_input(site)].shape;
      x.rank() == 4 && (x[1] % size.height != 0 || x[2] % size.width != 0)) {
    fail(site, "patches of ", size.height, 'x', size.width, " do not divide its input ",
         to_string(x), "; choose a divisor, or another size with data.resize");
  }
  config::ConvLayer patches;
  patches.filters = layer.filters;
  patches.kernel_size = patches.strides = layer.patch_size;
  patches.kernel_initializer = layer.kernel_initializer;
  ValueId y = add_part(site, "", patches, only_input(site));
  const Shape image = site.graph[y].shape;
  y = emit(site, graph::Reshape{{kBatch, image[1] * image[2], image[3]}}, {y});
  if (layer.class_token) y = add_part(site, "class_", config::PrependTokensLayer{}, y);
  if (layer.position_embedding) {
    y = add_part(site, "position_", config::PositionEmbeddingLayer{}, y);
  }
  return y;
}

ValueId add(const config::PrependTokensLayer& layer, LayerSite& site) {
  const Shape tokens = require_tokens(site);
  const auto fan = static_cast<double>(tokens[2]);
  const ValueId first =
      parameter(site, "tokens", {layer.count, tokens[2]}, {fan, fan}, layer.initializer);
  return emit(site, graph::PrependTokens{}, {only_input(site), first});
}

ValueId add(const config::PositionEmbeddingLayer& layer, LayerSite& site) {
  const Shape tokens = require_tokens(site);
  const Fans fans{static_cast<double>(tokens[1]), static_cast<double>(tokens[2])};
  const ValueId vectors =
      parameter(site, "embeddings", {tokens[1], tokens[2]}, fans, layer.initializer);
  return emit(site, graph::AddBias{}, {only_input(site), vectors});
}

ValueId add(const config::SliceTokensLayer& layer, LayerSite& site) {
  const std::int64_t tokens = require_tokens(site)[1], end = layer.end.value_or(tokens);
  if (layer.begin >= end || end > tokens) {
    fail(site, "tokens ", layer.begin, " to ", end, " are not among the ", tokens, " of its input");
  }
  graph::Crop crop;
  crop.top = layer.begin;
  crop.bottom = tokens - end;
  return emit(site, crop, {only_input(site)});
}

// Keras has kernels [channels, heads, key_dim] for queries, keys and values, and [heads, key_dim,
// channels] for the output, from which it takes the fans. The first three are one kernel here.
ValueId add(const config::AttentionLayer& layer, LayerSite& site) {
  expect_positive(site, "num_heads", layer.num_heads);
  const std::int64_t channels = require_tokens(site)[2], heads = layer.num_heads;
  if (!layer.key_dim && channels % heads != 0) {
    fail(site, "num_heads: ", heads, " does not divide the ", channels,
         " channels of its input; choose a divisor, or give key_dim");
  }
  const std::int64_t key_dim = layer.key_dim.value_or(channels / heads);
  const auto project = [&](const char* part, ValueId x, const Shape& shape, const Fans& fans) {
    site.part += part;
    std::vector<ValueId> inputs{x, parameter(site, "kernel", shape, fans, layer.kernel_initializer,
                                             layer.kernel_regularizer)};
    if (layer.use_bias) {
      inputs.push_back(vector_parameter(site, "bias", shape[1], layer.bias_initializer));
    }
    site.part.resize(site.part.size() - std::string_view(part).size());
    return emit(site, graph::Dense{layer.use_bias, {}}, inputs);
  };
  const auto c = static_cast<double>(channels), h = static_cast<double>(heads),
             d = static_cast<double>(key_dim);
  const ValueId qkv =
      project("qkv_", only_input(site), {channels, 3 * heads * key_dim}, {c * h, c * d});
  const ValueId y = emit(site, graph::Attention{heads}, {qkv});
  return project("output_", y, {heads * key_dim, channels}, {h * d, h * c});
}

ValueId add(const config::DotProductAttentionLayer& layer, LayerSite& site) {
  require_tokens(site);
  return emit(site, graph::Attention{layer.num_heads}, {only_input(site)});
}

ValueId add(const config::TransformerBlockLayer& layer, LayerSite& site) {
  const std::int64_t channels = require_tokens(site)[2];
  config::LayerNormLayer norm;
  norm.epsilon = layer.layer_norm_epsilon;
  const auto add_branch = [&](ValueId x, ValueId y) {
    if (layer.drop_path > 0) y = add_part(site, "", config::DropPathLayer{layer.drop_path}, y);
    return emit(site, graph::Add{}, {x, y});
  };
  const ValueId x = only_input(site);
  config::AttentionLayer attention;
  attention.num_heads = layer.num_heads;
  const ValueId between =
      add_branch(x, add_part(site, "attention_", attention, add_part(site, "norm1_", norm, x)));
  config::DenseLayer hidden, last;
  hidden.units = layer.mlp_dim.value_or(
      static_cast<std::int64_t>(static_cast<double>(channels) * layer.mlp_ratio));
  hidden.activation = layer.activation;
  last.units = channels;
  const ValueId y = add_part(site, "mlp1_", hidden, add_part(site, "norm2_", norm, between));
  return add_branch(between, add_part(site, "mlp2_", last, y));
}

}  // namespace trainer::model
