#include "config/sections/layers.h"

#include <tuple>
#include <utility>

#include "config/field.h"

namespace trainer::config {

void fields(FieldVisitor& v, Initializer& s) {
  using enum Initializer::Kind;
  static constexpr std::pair<Initializer::Kind, const char*> kHelp[] = {
      {kGlorotUniform,
       "Keras's GlorotUniform: uniform in [-x, x] with x = sqrt(6 / (fan_in + fan_out))."},
      {kGlorotNormal,
       "Keras's GlorotNormal: truncated normal, of variance 2 / (fan_in + fan_out)."},
      {kHeUniform, "Keras's HeUniform: uniform in [-x, x] with x = sqrt(6 / fan_in)."},
      {kHeNormal, "Keras's HeNormal: truncated normal, of variance 2 / fan_in."},
      {kLecunUniform, "Keras's LecunUniform: uniform in [-x, x] with x = sqrt(3 / fan_in)."},
      {kLecunNormal, "Keras's LecunNormal: truncated normal, of variance 1 / fan_in."},
      {kRandomUniform, "Keras's RandomUniform: uniform, from low to high."},
      {kRandomNormal, "Keras's RandomNormal: normal, by mean and stddev."},
      {kTruncatedNormal, "Keras's TruncatedNormal: normal, cut at two standard deviations."},
      {kZeros, "Keras's Zeros: all elements are 0."},
      {kOnes, "Keras's Ones: all elements are 1."},
      {kConstant, "Keras's Constant: all elements have one value."}};
  static_assert(std::size(kHelp) == spellings(Initializer::Kind{}).size());
  v.definition("initializer");
  v.choice("an initializer", true);
  for (const auto& [kind, help] : kHelp) {
    v.alternative(
        spell(kind), help, s.kind == kind, [&, k = kind] { s.kind = k; },
        [&, k = kind](FieldVisitor& inner) {
          if (k == kConstant) inner("value", s.value, "Value of all elements.");
          if (k == kRandomUniform) {
            inner("low", s.low, "Lower end of the range.");
            inner("high", s.high, "Upper end of the range.");
          }
          if (k == kRandomNormal || k == kTruncatedNormal) {
            inner("mean", s.mean, "Mean of the normal distribution.");
            inner("stddev", s.stddev, "Standard deviation of the normal distribution.",
                  at_least(0));
          }
        });
  }
}

void fields(FieldVisitor& v, Regularizer& s) {
  v.definition("regularizer");
  v("l1", s.l1, "The penalty l1 * sum(|w|) is added to the loss.", at_least(0));
  v("l2", s.l2, "The penalty l2 * sum(w^2) is added to the loss.", at_least(0));
}

// ---- Keys that several layers have ----

template <class L>
static void window_fields(FieldVisitor& v, L& s) {
  v("kernel_size", s.kernel_size, "Window in pixels, one number or [height, width].", pixels(1));
  v("strides", s.strides, "Distance in pixels between neighbouring windows.", pixels(1));
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels.", pixels(0));
  v("dilation_rate", s.dilation_rate,
    "Distance in pixels between neighbouring elements of a window.", pixels(1));
}

template <class L>
static void pool_fields(FieldVisitor& v, L& s) {
  v("pool_size", s.pool_size, "Extents of the window in pixels, one number or [height, width].",
    pixels(1).shorthand());
  v("strides", s.strides,
    "Distance in pixels between neighbouring windows; the pool size when left out.",
    pixels(1).default_from("pool_size"));
}

template <class L>
static void output_fields(FieldVisitor& v, L& s) {
  v("activation", s.activation, "Function applied to the output.");
  v("use_bias", s.use_bias, "Whether a bias is added.");
}

template <class L>
static void kernel_fields(FieldVisitor& v, L& s) {
  v("kernel_initializer", s.kernel_initializer, "Initializer of the kernel.", warn_on_resume());
  v("bias_initializer", s.bias_initializer, "Initializer of the bias.", warn_on_resume());
  v("kernel_regularizer", s.kernel_regularizer, "Penalty on the kernel; none when left out.",
    warn_on_resume());
}

template <class L>
static void norm_fields(FieldVisitor& v, L& s) {
  v("epsilon", s.epsilon, "Small number added to the variance, so that it is not zero.", above(0));
  v("center", s.center, "Whether beta, a trained offset, is added.");
  v("scale", s.scale, "Whether the result is multiplied by gamma, a trained scale.");
  v("beta_initializer", s.beta_initializer, "Initializer of beta, the offset.", warn_on_resume());
  v("gamma_initializer", s.gamma_initializer, "Initializer of gamma, the scale.", warn_on_resume());
}

// ---- The layers ----

static void fields(FieldVisitor& v, BatchNormLayer& s) {
  v("momentum", s.momentum, "Share of the moving statistics that is kept per step.", within(0, 1));
  norm_fields(v, s);
}

static void fields(FieldVisitor& v, ConvLayer& s) {
  v("filters", s.filters, "Number of output channels of the layer.",
    count_up_to(kMaxChannels).required());
  window_fields(v, s);
  v("groups", s.groups, "Number of groups of channels that are convolved separately.",
    count_up_to(kMaxChannels));
  v("batch_norm", s.batch_norm,
    "Batch normalization before the activation: true, or its keys; none when left out.",
    any().or_true());
  output_fields(v, s);
  kernel_fields(v, s);
}

static void fields(FieldVisitor& v, DepthwiseConvLayer& s) {
  window_fields(v, s);
  v("depth_multiplier", s.depth_multiplier, "Output channels per input channel.",
    count_up_to(kMaxChannels));
  output_fields(v, s);
  v("depthwise_initializer", s.depthwise_initializer, "Initializer of the kernel.",
    warn_on_resume());
  v("bias_initializer", s.bias_initializer, "Initializer of the bias.", warn_on_resume());
  v("depthwise_regularizer", s.depthwise_regularizer, "Penalty on the kernel; none when left out.",
    warn_on_resume());
}

static void fields(FieldVisitor& v, SeparableConvLayer& s) {
  v("filters", s.filters, "Number of output channels of the layer.",
    count_up_to(kMaxChannels).required());
  window_fields(v, s);
  v("depth_multiplier", s.depth_multiplier, "Depthwise channels per input channel.",
    count_up_to(kMaxChannels));
  output_fields(v, s);
  v("depthwise_initializer", s.depthwise_initializer, "Initializer of the depthwise kernel.",
    warn_on_resume());
  v("pointwise_initializer", s.pointwise_initializer, "Initializer of the 1x1 kernel.",
    warn_on_resume());
  v("bias_initializer", s.bias_initializer, "Initializer of the bias.", warn_on_resume());
  v("depthwise_regularizer", s.depthwise_regularizer,
    "Penalty on the depthwise kernel; none when left out.", warn_on_resume());
  v("pointwise_regularizer", s.pointwise_regularizer,
    "Penalty on the 1x1 kernel; none when left out.", warn_on_resume());
}

static void fields(FieldVisitor& v, MaxPoolLayer& s) {
  pool_fields(v, s);
  v("padding", s.padding, "valid, same or [top, bottom, left, right] in pixels.", pixels(0));
}

static void fields(FieldVisitor& v, AveragePoolLayer& s) {
  pool_fields(v, s);
  v("padding", s.padding, "valid, same or [top, bottom, left, right]; padded pixels do not count.",
    at_least(0));
}

static void fields(FieldVisitor& v, GlobalAveragePoolLayer& s) {
  v("keepdims", s.keepdims, "Whether the output is [1, 1, channels].");
}
static void fields(FieldVisitor& v, GlobalMaxPoolLayer& s) {
  v("keepdims", s.keepdims, "Whether the output is [1, 1, channels].");
}
static void fields(FieldVisitor&, FlattenLayer&) {}
static void fields(FieldVisitor&, AddLayer&) {}
static void fields(FieldVisitor&, ConcatenateLayer&) {}
static void fields(FieldVisitor&, MultiplyLayer&) {}

static void fields(FieldVisitor& v, DenseLayer& s) {
  v("units", s.units, "Number of outputs of the layer.",
    count_up_to(kMaxChannels).required().shorthand());
  output_fields(v, s);
  v("kernel_initializer", s.kernel_initializer, "Initializer of the kernel.", warn_on_resume());
  v("bias_initializer", s.bias_initializer, "Initializer of the bias.", warn_on_resume());
  v("kernel_regularizer", s.kernel_regularizer, "Penalty on the weights; none when left out.",
    warn_on_resume());
}

static void fields(FieldVisitor& v, ReshapeLayer& s) {
  v("target_shape", s.target_shape, "Shape of a sample; one entry may be -1, for what is left.",
    at_least(-1).items(1).required().shorthand());
}

static void fields(FieldVisitor& v, DropoutLayer& s) {
  v("rate", s.rate, "Fraction set to zero in training, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn).shorthand());
}

static void fields(FieldVisitor& v, ActivationLayer& s) {
  v("function", s.function,
    "Activation function; softmax is taken over the outputs of a sample, the others are applied to "
    "each value.",
    any().shorthand());
  v("alpha", s.alpha, "Slope of leaky_relu or scale of elu; each has its own when left out.",
    at_least(0));
}

static void fields(FieldVisitor& v, ReluLayer& s) {
  v("max_value", s.max_value, "Largest output, 6; no limit when left out.", any().shorthand());
}

static void fields(FieldVisitor& v, ZeroPadLayer& s) {
  v("padding", s.padding, "Zeros added, in pixels: one number or [top, bottom, left, right].",
    at_least(0).required().shorthand());
}

static void fields(FieldVisitor& v, LayerNormLayer& s) { norm_fields(v, s); }

static void fields(FieldVisitor& v, GroupNormLayer& s) {
  v("groups", s.groups, "Groups that the channels are normalised in; -1: one per channel.",
    at_least(-1).shorthand());
  norm_fields(v, s);
}

static void fields(FieldVisitor& v, PatchEmbeddingLayer& s) {
  v("filters", s.filters, "Number of channels of a token.", count_up_to(kMaxChannels).required());
  v("patch_size", s.patch_size, "Extents of a patch in pixels, one number or [height, width].",
    pixels(1));
  v("class_token", s.class_token, "Whether a trained token comes before those of the patches.");
  v("position_embedding", s.position_embedding, "Whether a trained vector is added to each token.");
  v("kernel_initializer", s.kernel_initializer, "Initializer of the kernel.", warn_on_resume());
}

static void fields(FieldVisitor& v, PrependTokensLayer& s) {
  v("count", s.count, "Number of trained tokens.", count_up_to(kMaxChannels).shorthand());
  v("initializer", s.initializer, "Initializer of the tokens.", warn_on_resume());
}

static void fields(FieldVisitor& v, PositionEmbeddingLayer& s) {
  v("initializer", s.initializer, "Initializer of the vectors.", warn_on_resume());
}

static void fields(FieldVisitor& v, SliceTokensLayer& s) {
  v("begin", s.begin, "The first token, counted from 0.", at_least(0));
  v("end", s.end, "The token after the last; all that follow when left out.", at_least(1));
}

static void heads_field(FieldVisitor& v, std::int64_t& heads) {
  v("num_heads", heads, "Number of attention heads.", count_up_to(kMaxChannels).required());
}

static void fields(FieldVisitor& v, AttentionLayer& s) {
  heads_field(v, s.num_heads);
  v("key_dim", s.key_dim,
    "Channels of a head for queries, keys and values; the channels of the input divided by "
    "num_heads when left out.",
    count_up_to(kMaxChannels));
  v("use_bias", s.use_bias, "Whether the projections have a bias.");
  v("kernel_initializer", s.kernel_initializer, "Initializer of the kernels.", warn_on_resume());
  v("bias_initializer", s.bias_initializer, "Initializer of the biases.", warn_on_resume());
  v("kernel_regularizer", s.kernel_regularizer, "Penalty on the kernels; none when left out.",
    warn_on_resume());
}

static void fields(FieldVisitor& v, DotProductAttentionLayer& s) { heads_field(v, s.num_heads); }

static void fields(FieldVisitor& v, TransformerBlockLayer& s) {
  heads_field(v, s.num_heads);
  v("mlp_ratio", s.mlp_ratio, "Hidden channels of the MLP per channel of the tokens.", above(0));
  v("mlp_dim", s.mlp_dim, "Hidden channels of the MLP, in place of mlp_ratio.",
    count_up_to(kMaxChannels));
  v("activation", s.activation, "Function between the two layers of the MLP.");
  v("layer_norm_epsilon", s.layer_norm_epsilon, "Epsilon of the two layer normalizations.",
    above(0));
  v("drop_path", s.drop_path, "Fraction of the samples that skip a branch in training, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn));
}

static void fields(FieldVisitor& v, UpSamplingLayer& s) {
  v("size", s.size, "Factor by which height and width grow, one number or [height, width].",
    pixels(1).shorthand());
  v("interpolation", s.interpolation, "How pixels between those of the input are computed.");
}

static void fields(FieldVisitor& v, ConvTransposeLayer& s) {
  v("filters", s.filters, "Number of output channels of the layer.",
    count_up_to(kMaxChannels).required());
  v("kernel_size", s.kernel_size, "Window in pixels, one number or [height, width].", pixels(1));
  v("strides", s.strides, "Factor by which height and width grow.", pixels(1));
  v("padding", s.padding, "Padding of the output, valid or same, as in Keras.", pixels(0));
  output_fields(v, s);
  kernel_fields(v, s);
}

static void fields(FieldVisitor& v, PreluLayer& s) {
  v("alpha_initializer", s.alpha_initializer, "Initializer of the slopes below 0.",
    warn_on_resume());
  v("alpha_regularizer", s.alpha_regularizer, "Penalty on the slopes; none when left out.",
    warn_on_resume());
  v("shared", s.shared,
    "One slope per channel, as Keras's shared_axes [1, 2]; else one per element.");
}

static void fields(FieldVisitor& v, SpatialDropoutLayer& s) {
  v("rate", s.rate, "Fraction of the channels set to zero in training, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn).shorthand());
}

static void fields(FieldVisitor& v, DropPathLayer& s) {
  v("rate", s.rate, "Fraction of the samples set to zero in training, in [0, 1).",
    below(0, 1).on_resume(Resume::kWarn).shorthand());
}

static void fields(FieldVisitor& v, LayerScaleLayer& s) {
  v("initial", s.initial, "Value of the factors before training.", warn_on_resume().shorthand());
}

static void fields(FieldVisitor& v, GlobalResponseNormLayer& s) {
  v("epsilon", s.epsilon, "Number that is added to the mean of the norms of the channels.",
    above(0).shorthand());
}

static void fields(FieldVisitor& v, Round& s) {
  v("layers", s.layers, "The layers of one round of repeat.",
    any().items(1).recursive().unless_empty().required());
}

static void fields(FieldVisitor& v, RepeatLayer& s) {
  v("times", s.times, "How often the layers come, one round after the other.",
    count_up_to(kMaxRounds).unless_empty());
  v("over", s.over,
    "Variables and their value in each round: with {size: [64, 128]} there are two rounds, in "
    "which filters: $size is 64 and then 128.",
    any().unless_empty());
  v("layers", s.layers, "The layers of a round; a name inside gets the round's number: a_1, a_2.",
    any().items(1).recursive().unless_empty().not_empty());
  v("rounds", s.rounds,
    "The layers of each round, as a list of {layers: [...]}; repeat.over is a short form of it.",
    any().items(1).unless_empty().not_empty());
  v.group({"times", "over", "rounds"}, true);
}

static void fields(FieldVisitor& v, ResidualLayer& s) {
  v("layers", s.layers, "The layers whose output is added to the shortcut's.",
    any().items(1).recursive().unless_empty().required());
  v("shortcut", s.shortcut, "The layers of the shortcut; its input itself is added when left out.",
    any().recursive().unless_empty());
  v("activation", s.activation, "Function applied to the sum.");
}

namespace {

template <class T>
struct LayerName {
  const char* key;
  const char* keras_class;
  const char* help;
};
// A layer that is missing here does not compile.
constexpr std::tuple kLayerNames{
    LayerName<ConvLayer>{"conv", "Conv2D", "Convolution over height and width, as Keras's Conv2D."},
    LayerName<DepthwiseConvLayer>{"depthwise_conv", "DepthwiseConv2D",
                                  "Convolution of each channel on its own."},
    LayerName<SeparableConvLayer>{"separable_conv", "SeparableConv2D",
                                  "Depthwise convolution, then 1x1 convolution."},
    LayerName<MaxPoolLayer>{"max_pool", "MaxPooling2D",
                            "Max pooling: the maximum of each window, as Keras's MaxPooling2D."},
    LayerName<AveragePoolLayer>{
        "average_pool", "AveragePooling2D",
        "Average pooling: the mean of each window, as Keras's AveragePooling2D."},
    LayerName<GlobalAveragePoolLayer>{
        "global_average_pool", "GlobalAveragePooling2D",
        "Global average pooling: the mean of each channel of an image."},
    LayerName<GlobalMaxPoolLayer>{"global_max_pool", "GlobalMaxPooling2D",
                                  "Global max pooling: the maximum of each channel of an image."},
    LayerName<DenseLayer>{"dense", "Dense", "Fully connected layer, as Keras's Dense."},
    LayerName<FlattenLayer>{"flatten", "Flatten", "Height, width and channels as one vector."},
    LayerName<ReshapeLayer>{"reshape", "Reshape",
                            "Gives the values of a sample another shape, as Keras's Reshape."},
    LayerName<DropoutLayer>{"dropout", "Dropout", "Sets a random part to zero in training."},
    LayerName<BatchNormLayer>{"batch_norm", "BatchNormalization",
                              "Batch normalization, as Keras's BatchNormalization."},
    LayerName<ActivationLayer>{"activation", "Activation",
                               "Applies an activation function to its input."},
    LayerName<ReluLayer>{"relu", "ReLU",
                         "ReLU: the larger of a value and 0, up to an optional limit."},
    LayerName<ZeroPadLayer>{"zero_pad", "ZeroPadding2D", "Adds a border of zeros to the image."},
    LayerName<AddLayer>{"add", "Add", "Adds its inputs, which have equal shapes."},
    LayerName<ConcatenateLayer>{"concatenate", "Concatenate",
                                "The inputs side by side, along the channels."},
    LayerName<MultiplyLayer>{"multiply", "Multiply",
                             "Product of two inputs; the second may be [1, 1, channels]."},
    LayerName<LayerNormLayer>{"layer_norm", "LayerNormalization",
                              "Normalises the channels of each pixel."},
    LayerName<GroupNormLayer>{"group_norm", "GroupNormalization",
                              "Normalises groups of channels of each sample."},
    LayerName<PatchEmbeddingLayer>{
        "patch_embedding", "PatchEmbedding",
        "Turns an image into tokens [patches, channels], one per patch."},
    LayerName<PrependTokensLayer>{"prepend_tokens", "PrependTokens",
                                  "Trained tokens before those of the input."},
    LayerName<PositionEmbeddingLayer>{"position_embedding", "PositionEmbedding",
                                      "Adds a trained vector to each token."},
    LayerName<SliceTokensLayer>{"slice_tokens", "SliceTokens",
                                "Some of the tokens, e.g. a class token."},
    LayerName<AttentionLayer>{"attention", "MultiHeadAttention",
                              "Attention of tokens to each other, as Keras's MultiHeadAttention."},
    LayerName<DotProductAttentionLayer>{
        "dot_product_attention", "DotProductAttention",
        "Attention without weights, of [queries, keys, values] per token."},
    LayerName<TransformerBlockLayer>{
        "transformer_block", "TransformerBlock",
        "Attention and an MLP, each after a layer norm and with a shortcut."},
    LayerName<UpSamplingLayer>{"up_sampling", "UpSampling2D",
                               "Enlarges the image by a whole factor, as Keras's UpSampling2D."},
    LayerName<ConvTransposeLayer>{"conv_transpose", "Conv2DTranspose",
                                  "Transposed convolution, which enlarges the image."},
    LayerName<PreluLayer>{"prelu", "PReLU", "ReLU with a slope below 0 that is trained."},
    LayerName<SpatialDropoutLayer>{"spatial_dropout", "SpatialDropout2D",
                                   "Sets random channels to zero in training."},
    LayerName<DropPathLayer>{"drop_path", "StochasticDepth",
                             "Sets random samples to zero in training (stochastic depth)."},
    LayerName<LayerScaleLayer>{"layer_scale", "LayerScale",
                               "Multiplies each channel with a number that is trained."},
    LayerName<GlobalResponseNormLayer>{"global_response_norm", "GlobalResponseNormalization",
                                       "Scales each channel by its share of the norms."},
    LayerName<RepeatLayer>{"repeat", "Repeat", "Layers several times in a row."},
    LayerName<ResidualLayer>{"residual", "Residual", "Layers and a shortcut past them, added."}};

template <class T>
constexpr const LayerName<T>& kLayerName = std::get<LayerName<T>>(kLayerNames);

}  // namespace

template <class... Kinds>
static void layer_kinds(FieldVisitor& v, Layer& s, std::variant<Kinds...>& kind) {
  (v.alternative(
       kLayerName<Kinds>.key, kLayerName<Kinds>.help, std::holds_alternative<Kinds>(kind),
       [&] { kind.template emplace<Kinds>(); },
       [&](FieldVisitor& inner) {
         inner.located(s.loc);
         fields(inner, std::get<Kinds>(kind));
         inner("name", s.name, "Name of the layer; Keras's automatic name when left out.");
         inner("inputs", s.inputs,
               "Names of the layers before this one, 'input' being the image; the previous layer "
               "when left out.",
               any().allow_scalar());
       }),
   ...);
}

void fields(FieldVisitor& v, Layer& s) {
  v.definition("layer");
  v.choice("a layer", true);
  layer_kinds(v, s, s.kind);
}

const char* layer_key(const Layer& layer) {
  return std::visit([](const auto& kind) { return kLayerName<std::decay_t<decltype(kind)>>.key; },
                    layer.kind);
}

const char* keras_class(const Layer& layer) {
  return std::visit(
      [](const auto& kind) { return kLayerName<std::decay_t<decltype(kind)>>.keras_class; },
      layer.kind);
}

}  // namespace trainer::config
