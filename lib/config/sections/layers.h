// One entry of a layer list: model.layers and model.head.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/activation.h"
#include "base/choices.h"
#include "base/error.h"
#include "base/spelling.h"

namespace trainer::config {

class FieldVisitor;

// One number for both directions, or [height, width].
struct Pair {
  std::int64_t height = 1;
  std::int64_t width = 1;
  bool operator==(const Pair&) const = default;
};

// "same" and "valid" are Keras's: "same" pads so that output = ceil(input / stride), with the odd
// pixel below and to the right. A list [top, bottom, left, right] pads explicitly.
struct Padding {
  enum class Kind { kValid, kSame, kExplicit };
  Kind kind = Kind::kValid;
  std::array<std::int64_t, 4> pixels{};  // top, bottom, left, right; kExplicit only
  bool operator==(const Padding&) const = default;
};

using Activation = ActivationKind;

// Keras's initialisers of the same names. The variance-scaling ones use fan-in and fan-out as Keras
// computes them; normal ones are truncated at two standard deviations where Keras's are.
struct Initializer {
  enum class Kind {
    kGlorotUniform,
    kGlorotNormal,
    kHeUniform,
    kHeNormal,
    kLecunUniform,
    kLecunNormal,
    kRandomUniform,
    kRandomNormal,
    kTruncatedNormal,
    kZeros,
    kOnes,
    kConstant
  };
  Kind kind = Kind::kGlorotUniform;
  double value = 0;                 // constant
  double low = -0.05, high = 0.05;  // random_uniform
  double mean = 0, stddev = 0.05;   // random_normal, truncated_normal
  bool operator==(const Initializer&) const = default;
};

// The penalty l1 * sum(|w|) + l2 * sum(w^2) is added to the loss (Keras's regularizers.L1L2).
struct Regularizer {
  double l1 = 0;
  double l2 = 0;
  bool operator==(const Regularizer&) const = default;
};

struct BatchNormLayer {
  double momentum = 0.99;  // Keras's: moving = moving * momentum + batch * (1 - momentum)
  double epsilon = 1e-3;
  bool center = true;  // true: has beta
  bool scale = true;   // true: has gamma
  Initializer beta_initializer{Initializer::Kind::kZeros};
  Initializer gamma_initializer{Initializer::Kind::kOnes};
};
struct ConvLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t groups = 1;
  std::optional<BatchNormLayer> batch_norm;  // runs between the convolution and its activation
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
struct DepthwiseConvLayer {
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t depth_multiplier = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer depthwise_regularizer;
};
// Depthwise, then 1x1: no activation between the two.
struct SeparableConvLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;
  Pair dilation_rate{1, 1};
  std::int64_t depth_multiplier = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer depthwise_initializer;
  Initializer pointwise_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
};
struct MaxPoolLayer {
  Pair pool_size{2, 2};
  std::optional<Pair> strides;  // the pool size when left out
  Padding padding;
};
struct AveragePoolLayer {
  Pair pool_size{2, 2};
  std::optional<Pair> strides;
  Padding padding;  // padded pixels are not counted in the average, as in Keras
};
struct GlobalAveragePoolLayer {
  bool keepdims = false;  // [1, 1, channels] instead of [channels]
};
struct GlobalMaxPoolLayer {
  bool keepdims = false;
};
struct DenseLayer {
  std::int64_t units = 0;  // required, > 0
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
struct FlattenLayer {};  // height, width, channels in this order, as Keras does
struct ReshapeLayer {
  std::vector<std::int64_t> target_shape;  // excludes the batch; one entry may be -1
};
struct DropoutLayer {
  double rate = 0.5;  // fraction set to zero, in [0, 1); `dropout: 0.5` is short for this
};
struct ActivationLayer {
  Activation function = Activation::kRelu;  // `activation: relu` is short for this
  std::optional<double> alpha;  // slope of leaky_relu or scale of elu; Keras's when left out
};
struct ReluLayer {                  // Keras's ReLU; an activation with a class of its own
  std::optional<double> max_value;  // 6 or none
};
struct ZeroPadLayer {
  std::array<std::int64_t, 4> padding{};  // top, bottom, left, right; one number means all four
};
struct AddLayer {};
struct ConcatenateLayer {};  // along the channels
struct MultiplyLayer {};     // has two inputs; the second may be [1, 1, channels]

// Keras's LayerNormalization over the channels.
struct LayerNormLayer {
  double epsilon = 1e-3;
  bool center = true;  // true: has beta
  bool scale = true;   // true: has gamma
  Initializer beta_initializer{Initializer::Kind::kZeros};
  Initializer gamma_initializer{Initializer::Kind::kOnes};
};
struct GroupNormLayer {
  std::int64_t groups = 32;  // -1: one per channel
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer{Initializer::Kind::kZeros};
  Initializer gamma_initializer{Initializer::Kind::kOnes};
};
// Turns an image into tokens: a convolution of patches, row by row.
struct PatchEmbeddingLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair patch_size{16, 16};
  bool class_token = false;        // the first token
  bool position_embedding = true;  // added to all tokens
  Initializer kernel_initializer;
};
// Trained tokens before those of the input: class tokens and registers.
struct PrependTokensLayer {
  std::int64_t count = 1;
  Initializer initializer{Initializer::Kind::kRandomNormal, 0, 0, 0, 0, 0.02};
};
// Adds a trained vector to each token.
struct PositionEmbeddingLayer {
  Initializer initializer{Initializer::Kind::kTruncatedNormal, 0, 0, 0, 0, 0.02};
};
struct SliceTokensLayer {
  std::int64_t begin = 0;
  std::optional<std::int64_t> end;  // the number of tokens when left out
};
// Keras's MultiHeadAttention of tokens [tokens, channels] with themselves.
struct AttentionLayer {
  std::int64_t num_heads = 0;           // required, > 0
  std::optional<std::int64_t> key_dim;  // channels of a head; channels / num_heads when left out
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
// What is between the projections of AttentionLayer: the channels of its input are the queries,
// keys and values of all heads, side by side.
struct DotProductAttentionLayer {
  std::int64_t num_heads = 0;  // required, > 0
};
// The block of ViT: x + attention(norm(x)), then y + mlp(norm(y)).
struct TransformerBlockLayer {
  std::int64_t num_heads = 0;           // required, > 0
  double mlp_ratio = 4;                 // hidden channels of the mlp per channel
  std::optional<std::int64_t> mlp_dim;  // in place of mlp_ratio
  Activation activation = Activation::kGelu;
  double layer_norm_epsilon = 1e-6;
  double drop_path = 0;  // share of the samples that skip a branch in training
};
struct UpSamplingLayer {
  Pair size{2, 2};
  UpSampling interpolation = UpSampling::kNearest;
};
// With "same", the output is the input size times the stride; with "valid", every pixel that the
// kernel reaches.
struct ConvTransposeLayer {
  std::int64_t filters = 0;  // required, > 0
  Pair kernel_size{3, 3};
  Pair strides{1, 1};
  Padding padding;  // valid or same
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer;
  Initializer bias_initializer{Initializer::Kind::kZeros};
  Regularizer kernel_regularizer;
};
// Gives x where x > 0, else alpha * x with a trained alpha.
struct PreluLayer {
  Initializer alpha_initializer{Initializer::Kind::kZeros};
  Regularizer alpha_regularizer;
  bool shared = false;  // one alpha per channel (Keras's shared_axes [1, 2]), else one per element
};
struct SpatialDropoutLayer {
  double rate = 0.5;  // fraction of the channels of each sample
};
struct DropPathLayer {
  double rate = 0.5;  // fraction of the samples
};
// Multiplies each channel with a trained number, as in ConvNeXt.
struct LayerScaleLayer {
  double initial = 1e-6;
};
// Global response normalization of ConvNeXt V2: x + gamma * x * n + beta, where n is the norm of a
// channel over the pixels, divided by the mean of the channels' norms. gamma and beta start at 0.
struct GlobalResponseNormLayer {
  double epsilon = 1e-6;
};

// Groups of layers, which model/expand_layers.cpp expands.
struct Layer;
struct Round {
  std::vector<Layer> layers;  // required
};
// The key repeat.over, variables with a value for each round. Reading a file replaces it by rounds
// (yaml/rounds.cpp), so that no config holds one.
struct LoopValues {};
// Repeats layers. A name inside gets the number of the round: a_1, a_2, ...
struct RepeatLayer {
  std::optional<std::int64_t> times;  // number of rounds of `layers`, > 0; not beside `rounds`
  std::optional<LoopValues> over;
  std::vector<Layer> layers;  // required with `times`
  std::vector<Round> rounds;  // rounds with layers of their own

  std::int64_t count_rounds() const { return times ? *times : std::ssize(rounds); }
  // Returns the layers of a round, counted from 1.
  const std::vector<Layer>& find_layers(std::int64_t round) const {
    return times ? layers : rounds[round - 1].layers;
  }
};
// Computes activation(layers(x) + shortcut(x)); without a shortcut x itself is added.
struct ResidualLayer {
  std::vector<Layer> layers;  // required
  std::vector<Layer> shortcut;
  Activation activation = Activation::kLinear;
};

using LayerKind =
    std::variant<ConvLayer, DepthwiseConvLayer, SeparableConvLayer, MaxPoolLayer, AveragePoolLayer,
                 GlobalAveragePoolLayer, GlobalMaxPoolLayer, DenseLayer, FlattenLayer, ReshapeLayer,
                 DropoutLayer, BatchNormLayer, ActivationLayer, ReluLayer, ZeroPadLayer, AddLayer,
                 ConcatenateLayer, MultiplyLayer, LayerNormLayer, GroupNormLayer,
                 PatchEmbeddingLayer, PrependTokensLayer, PositionEmbeddingLayer, SliceTokensLayer,
                 AttentionLayer, DotProductAttentionLayer, TransformerBlockLayer, UpSamplingLayer,
                 ConvTransposeLayer, PreluLayer, SpatialDropoutLayer, DropPathLayer,
                 LayerScaleLayer, GlobalResponseNormLayer, RepeatLayer, ResidualLayer>;

// One entry of a layer list: `- conv: {filters: 32}`, `- flatten`, `- dropout: 0.5`.
struct Layer {
  LayerKind kind;
  std::string name;  // Keras's automatic name (conv2d, conv2d_1, ...) when empty
  std::vector<std::string>
      inputs;  // names of layers; the previous layer when empty; "input" is the image
  SourceLoc loc;
};
// Returns the key that names the kind of a layer: "conv".
const char* layer_key(const Layer& layer);
// Returns Keras's class of such a layer: "Conv2D".
const char* keras_class(const Layer& layer);

constexpr auto spellings(Initializer::Kind) {
  using enum Initializer::Kind;
  return std::to_array<Spelling<Initializer::Kind>>({{kGlorotUniform, "glorot_uniform"},
                                                     {kGlorotNormal, "glorot_normal"},
                                                     {kHeUniform, "he_uniform"},
                                                     {kHeNormal, "he_normal"},
                                                     {kLecunUniform, "lecun_uniform"},
                                                     {kLecunNormal, "lecun_normal"},
                                                     {kRandomUniform, "random_uniform"},
                                                     {kRandomNormal, "random_normal"},
                                                     {kTruncatedNormal, "truncated_normal"},
                                                     {kZeros, "zeros"},
                                                     {kOnes, "ones"},
                                                     {kConstant, "constant"}});
}
void fields(FieldVisitor& v, Initializer& s);
void fields(FieldVisitor& v, Layer& s);

}  // namespace trainer::config
