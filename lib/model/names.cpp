#include "model/names.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "config/values.h"

namespace trainer::model {
namespace {

KindNames names(const config::ConvLayer&) { return {"Conv2D", "conv2d"}; }
KindNames names(const config::DepthwiseConvLayer&) {
  return {"DepthwiseConv2D", "depthwise_conv2d"};
}
KindNames names(const config::SeparableConvLayer&) {
  return {"SeparableConv2D", "separable_conv2d"};
}
KindNames names(const config::MaxPoolLayer&) { return {"MaxPooling2D", "max_pooling2d"}; }
KindNames names(const config::AveragePoolLayer&) {
  return {"AveragePooling2D", "average_pooling2d"};
}
KindNames names(const config::GlobalAveragePoolLayer&) {
  return {"GlobalAveragePooling2D", "global_average_pooling2d"};
}
KindNames names(const config::GlobalMaxPoolLayer&) {
  return {"GlobalMaxPooling2D", "global_max_pooling2d"};
}
KindNames names(const config::DenseLayer&) { return {"Dense", "dense"}; }
KindNames names(const config::FlattenLayer&) { return {"Flatten", "flatten"}; }
KindNames names(const config::ReshapeLayer&) { return {"Reshape", "reshape"}; }
KindNames names(const config::DropoutLayer&) { return {"Dropout", "dropout"}; }
KindNames names(const config::BatchNormLayer&) {
  return {"BatchNormalization", "batch_normalization"};
}
KindNames names(const config::ActivationLayer&) { return {"Activation", "activation"}; }
KindNames names(const config::ReluLayer&) { return {"ReLU", "re_lu"}; }
KindNames names(const config::ZeroPadLayer&) { return {"ZeroPadding2D", "zero_padding2d"}; }
KindNames names(const config::AddLayer&) { return {"Add", "add"}; }
KindNames names(const config::ConcatenateLayer&) { return {"Concatenate", "concatenate"}; }
KindNames names(const config::MultiplyLayer&) { return {"Multiply", "multiply"}; }
KindNames names(const config::LayerNormLayer&) {
  return {"LayerNormalization", "layer_normalization"};
}
KindNames names(const config::GroupNormLayer&) {
  return {"GroupNormalization", "group_normalization"};
}
KindNames names(const config::PatchEmbeddingLayer&) {
  return {"PatchEmbedding", "patch_embedding"};
}
KindNames names(const config::PrependTokensLayer&) { return {"PrependTokens", "prepend_tokens"}; }
KindNames names(const config::PositionEmbeddingLayer&) {
  return {"PositionEmbedding", "position_embedding"};
}
KindNames names(const config::SliceTokensLayer&) { return {"SliceTokens", "slice_tokens"}; }
KindNames names(const config::AttentionLayer&) {
  return {"MultiHeadAttention", "multi_head_attention"};
}
KindNames names(const config::DotProductAttentionLayer&) {
  return {"DotProductAttention", "dot_product_attention"};
}
KindNames names(const config::TransformerBlockLayer&) {
  return {"TransformerBlock", "transformer_block"};
}
KindNames names(const config::UpSamplingLayer&) { return {"UpSampling2D", "up_sampling2d"}; }
KindNames names(const config::ConvTransposeLayer&) {
  return {"Conv2DTranspose", "conv2d_transpose"};
}
KindNames names(const config::PreluLayer&) { return {"PReLU", "p_re_lu"}; }
KindNames names(const config::SpatialDropoutLayer&) {
  return {"SpatialDropout2D", "spatial_dropout2d"};
}
KindNames names(const config::DropPathLayer&) { return {"StochasticDepth", "stochastic_depth"}; }
KindNames names(const config::LayerScaleLayer&) { return {"LayerScale", "layer_scale"}; }
KindNames names(const config::GlobalResponseNormLayer&) {
  return {"GlobalResponseNormalization", "global_response_normalization"};
}
// Groups are never in a model; see expand_layers().
KindNames names(const config::RepeatLayer&) { return {"Repeat", "repeat"}; }
KindNames names(const config::ResidualLayer&) { return {"Residual", "residual"}; }

}  // namespace

KindNames kind_names(const config::LayerKind& layer) {
  return std::visit([](const auto& each) { return names(each); }, layer);
}

std::vector<std::string> layer_names(const std::vector<config::Layer>& layers,
                                     std::vector<Diagnostic>& errors) {
  std::map<std::string, SourceLoc> taken;
  for (const config::Layer& layer : layers) {
    if (layer.name.empty()) continue;
    if (layer.name == "input") {
      errors.push_back({layer.loc, "layer name 'input' means the image; choose another name"});
    } else if (const auto [other, fresh] = taken.emplace(layer.name, layer.loc); !fresh) {
      errors.push_back({layer.loc, concat("two layers are named '", layer.name, "' (the other: ",
                                          to_string(other->second), "); names must be unique")});
    }
  }
  std::vector<std::string> result;
  std::map<std::string, int> count;
  for (const config::Layer& layer : layers) {
    std::string name = layer.name;
    while (name.empty() || (layer.name.empty() && taken.contains(name))) {
      const std::string start = kind_names(layer.kind).automatic;
      const int number = count[start]++;
      name = number == 0 ? start : concat(start, "_", number);
    }
    result.push_back(name);
  }
  return result;
}

std::string suggest_layers(const std::string& name, std::vector<std::string> known,
                           const char* which) {
  constexpr std::ptrdiff_t kMaxListed = 12;
  if (const std::string guess = config::suggestion(name, known); !guess.empty()) return guess;
  const std::ptrdiff_t first = std::max<std::ptrdiff_t>(std::ssize(known) - kMaxListed, 0);
  known.erase(known.begin(), known.begin() + first);
  return concat(first > 0 ? "; the last layers" : "; layers", which, ": ", join(known));
}

}  // namespace trainer::model
