// Networks of inverted residual blocks: MobileNetV2 (Sandler et al., arXiv:1801.04381), MobileNetV3
// (Howard et al., arXiv:1905.02244), EfficientNet (Tan and Le, arXiv:1905.11946) and EfficientNetV2
// (arXiv:2104.00298) of keras.applications, torchvision and timm. They leave out Keras's layers
// that prepare the image, which data.preprocess does. Keras's hard_sigmoid is three layers (add,
// ReLU, multiply), here it is one.
#include <algorithm>
#include <cmath>
#include <span>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Variant = config::Backbone::Variant;
using config::Activation;

enum class Family { kMobileNetV2, kMobileNetV3, kEfficientNet, kEfficientNetV2 };

// Blocks of one kind. `expansion` is the factor of the channels inside.
struct BlockSpec {
  double expansion;
  std::int64_t filters, size, stride;  // the stride of the first of them
  int count = 1;
  bool has_squeeze = true;
  bool is_fused = false;   // a convolution in place of the expansion and the depthwise convolution
  bool hard_swish = true;  // MobileNetV3: in place of ReLU
};
constexpr BlockSpec kMobileNetV2[] = {{1, 16, 3, 1, 1, false}, {6, 24, 3, 2, 2, false},
                                      {6, 32, 3, 2, 3, false}, {6, 64, 3, 2, 4, false},
                                      {6, 96, 3, 1, 3, false}, {6, 160, 3, 2, 3, false},
                                      {6, 320, 3, 1, 1, false}};
constexpr BlockSpec kMobileNetV3Small[] = {{1, 16, 3, 2, 1, true, false, false},
                                           {72.0 / 16, 24, 3, 2, 1, false, false, false},
                                           {88.0 / 24, 24, 3, 1, 1, false, false, false},
                                           {4, 40, 5, 2},
                                           {6, 40, 5, 1, 2},
                                           {3, 48, 5, 1, 2},
                                           {6, 96, 5, 2, 3}};
constexpr BlockSpec kMobileNetV3Large[] = {{1, 16, 3, 1, 1, false, false, false},
                                           {4, 24, 3, 2, 1, false, false, false},
                                           {3, 24, 3, 1, 1, false, false, false},
                                           {3, 40, 5, 2, 3, true, false, false},
                                           {6, 80, 3, 2, 1, false},
                                           {2.5, 80, 3, 1, 1, false},
                                           {2.3, 80, 3, 1, 2, false},
                                           {6, 112, 3, 1, 2},
                                           {6, 160, 5, 2, 3}};
constexpr BlockSpec kEfficientNet[] = {{1, 16, 3, 1, 1}, {6, 24, 3, 2, 2},  {6, 40, 5, 2, 2},
                                       {6, 80, 3, 2, 3}, {6, 112, 5, 1, 3}, {6, 192, 5, 2, 4},
                                       {6, 320, 3, 1, 1}};
constexpr BlockSpec kEfficientNetV2B[] = {{1, 16, 3, 1, 1, false, true},
                                          {4, 32, 3, 2, 2, false, true},
                                          {4, 48, 3, 2, 2, false, true},
                                          {4, 96, 3, 2, 3},
                                          {6, 112, 3, 1, 5},
                                          {6, 192, 3, 2, 8}};
constexpr BlockSpec kEfficientNetV2S[] = {{1, 24, 3, 1, 2, false, true},
                                          {4, 48, 3, 2, 4, false, true},
                                          {4, 64, 3, 2, 4, false, true},
                                          {4, 128, 3, 2, 6},
                                          {6, 160, 3, 1, 9},
                                          {6, 256, 3, 2, 15}};

struct NetworkSpec {
  Name name;
  Family family;
  std::span<const BlockSpec> blocks;
  std::int64_t stem;  // channels
  std::int64_t head;  // of the last convolution, or of the hidden layer of MobileNetV3's classifier
  double width = 1, depth = 1;
  double dropout = 0;  // before the logits
};
constexpr NetworkSpec kNetworks[] = {
    {Name::kMobileNetV2, Family::kMobileNetV2, kMobileNetV2, 32, 1280},
    {Name::kMobileNetV3Small, Family::kMobileNetV3, kMobileNetV3Small, 16, 1024},
    {Name::kMobileNetV3Large, Family::kMobileNetV3, kMobileNetV3Large, 16, 1280},
    {Name::kEfficientNetB0, Family::kEfficientNet, kEfficientNet, 32, 1280, 1.0, 1.0, 0.2},
    {Name::kEfficientNetB1, Family::kEfficientNet, kEfficientNet, 32, 1280, 1.0, 1.1, 0.2},
    {Name::kEfficientNetB2, Family::kEfficientNet, kEfficientNet, 32, 1280, 1.1, 1.2, 0.3},
    {Name::kEfficientNetB3, Family::kEfficientNet, kEfficientNet, 32, 1280, 1.2, 1.4, 0.3},
    {Name::kEfficientNetB4, Family::kEfficientNet, kEfficientNet, 32, 1280, 1.4, 1.8, 0.4},
    {Name::kEfficientNetV2B0, Family::kEfficientNetV2, kEfficientNetV2B, 32, 1280, 1.0, 1.0, 0.2},
    {Name::kEfficientNetV2B1, Family::kEfficientNetV2, kEfficientNetV2B, 32, 1280, 1.0, 1.1, 0.2},
    {Name::kEfficientNetV2B2, Family::kEfficientNetV2, kEfficientNetV2B, 32, 1280, 1.1, 1.2, 0.2},
    {Name::kEfficientNetV2B3, Family::kEfficientNetV2, kEfficientNetV2B, 32, 1280, 1.2, 1.4, 0.2},
    {Name::kEfficientNetV2S, Family::kEfficientNetV2, kEfficientNetV2S, 24, 1280, 1.0, 1.0, 0.2},
};

// The names of layers; see fill_in(). A part of a block is a convolution with its norm. Null for
// layers that no network of the names has.
struct Names {
  const char *stem = nullptr, *stem_norm = nullptr;
  const char* stem_activation = "stem_activation";
  const char* first_block = nullptr;  // where it is not `block`
  const char* block = nullptr;
  const char *expand = nullptr, *expand_norm = nullptr;
  const char* expand_activation = "expand_activation";
  const char *fused = nullptr, *fused_alone = nullptr;  // the latter without a projection
  const char* pad = "pad";
  const char *depthwise = nullptr, *depthwise_norm = nullptr;
  const char* activation = "activation";
  const char* squeeze = "se_squeeze";
  const char* squeeze_reshape = nullptr;
  const char* reduce = nullptr;
  const char* reduce_activation = "se_relu";  // MobileNetV3
  const char* excite = nullptr;
  const char* excite_activation = "se_hard_sigmoid";  // MobileNetV3
  const char* multiply = "se_excite";
  bool squeeze_is_part = false;
  const char *project = nullptr, *project_alone = nullptr, *project_norm = nullptr;
  const char *head = nullptr, *head_norm = nullptr;
  const char* head_activation = "top_activation";
  const char* pool = "avg_pool";
  const char* hidden = nullptr;  // MobileNetV3's
  const char* logits = nullptr;
};
constexpr Names kKerasV2{.stem = "Conv1",
                         .stem_norm = "bn_Conv1",
                         .stem_activation = "Conv1_relu",
                         .first_block = "expanded_conv_",
                         .block = "block_{n}_",
                         .expand = "expand",
                         .expand_norm = "expand_BN",
                         .expand_activation = "expand_relu",
                         .depthwise = "depthwise",
                         .depthwise_norm = "depthwise_BN",
                         .activation = "depthwise_relu",
                         .project = "project",
                         .project_alone = "project",
                         .project_norm = "project_BN",
                         .head = "Conv_1",
                         .head_norm = "Conv_1_bn",
                         .head_activation = "out_relu",
                         .pool = "",
                         .logits = "predictions"};
constexpr Names kKerasV3{.stem = "conv",
                         .stem_norm = "conv_bn",
                         .stem_activation = "conv_activation",
                         .first_block = "expanded_conv_",
                         .block = "expanded_conv_{n}_",
                         .expand = "expand",
                         .expand_norm = "expand_bn",
                         .pad = "depthwise_pad",
                         .depthwise = "depthwise",
                         .depthwise_norm = "depthwise_bn",
                         .activation = "depthwise_activation",
                         .squeeze = "squeeze_excite_avg_pool",
                         .reduce = "squeeze_excite_conv",
                         .reduce_activation = "squeeze_excite_relu",
                         .excite = "squeeze_excite_conv_1",
                         .excite_activation = "squeeze_excite_hard_sigmoid",
                         .multiply = "squeeze_excite_mul",
                         .project = "project",
                         .project_alone = "project",
                         .project_norm = "project_bn",
                         .head = "conv_1",
                         .head_norm = "conv_1_bn",
                         .head_activation = "conv_1_activation",
                         .pool = "global_average_pooling2d",
                         .hidden = "conv_2",
                         .logits = "logits"};
constexpr Names kKerasEfficientNet{.stem = "stem_conv",
                                   .stem_norm = "stem_bn",
                                   .block = "block{S}{a}_",
                                   .expand = "expand_conv",
                                   .expand_norm = "expand_bn",
                                   .fused = "expand_conv",
                                   .fused_alone = "project_conv",
                                   .pad = "dwconv_pad",
                                   .depthwise = "dwconv",
                                   .depthwise_norm = "bn",
                                   .squeeze_reshape = "se_reshape",
                                   .reduce = "se_reduce",
                                   .excite = "se_expand",
                                   .project = "project_conv",
                                   .project_alone = "project_conv",
                                   .project_norm = "project_bn",
                                   .head = "top_conv",
                                   .head_norm = "top_bn",
                                   .logits = "predictions"};
constexpr Names make_keras_efficientnet_v2() {
  Names names = kKerasEfficientNet;
  names.depthwise = "dwconv2";
  return names;
}
constexpr Names kKerasEfficientNetV2 = make_keras_efficientnet_v2();
constexpr Names make_torchvision(const char* block, const char* head, const char* head_norm) {
  return {.stem = "features.0.0",
          .stem_norm = "features.0.1",
          .block = block,
          .expand = "block.{p}.0",
          .expand_norm = "block.{p}.1",
          .fused = "block.{p}.0",
          .fused_alone = "block.{p}.0",
          .depthwise = "block.{p}.0",
          .depthwise_norm = "block.{p}.1",
          .reduce = "block.{p}.fc1",
          .excite = "block.{p}.fc2",
          .squeeze_is_part = true,
          .project = "block.{p}.0",
          .project_alone = "block.{p}.0",
          .project_norm = "block.{p}.1",
          .head = head,
          .head_norm = head_norm,
          .logits = "classifier.1"};
}
constexpr Names make_torchvision_v2() {
  Names names = make_torchvision("features.{N}.", "features.18.0", "features.18.1");
  names.expand = names.depthwise = "conv.{p}.0";
  names.expand_norm = names.depthwise_norm = "conv.{p}.1";
  names.project = names.project_alone = "conv.{p}";
  names.project_norm = "conv.{P}";
  return names;
}
constexpr Names make_torchvision_v3(const char* head, const char* head_norm) {
  Names names = make_torchvision("features.{N}.", head, head_norm);
  names.hidden = "classifier.0";
  names.logits = "classifier.3";
  return names;
}
constexpr Names kTorchvisionV2 = make_torchvision_v2();
constexpr Names kTorchvisionV3Small = make_torchvision_v3("features.12.0", "features.12.1");
constexpr Names kTorchvisionV3Large = make_torchvision_v3("features.16.0", "features.16.1");
constexpr Names kTorchvisionEfficientNet =
    make_torchvision("features.{S}.{b}.", "features.8.0", "features.8.1");
constexpr Names kTorchvisionEfficientNetV2 =
    make_torchvision("features.{S}.{b}.", "features.7.0", "features.7.1");
constexpr Names kTimm{.stem = "conv_stem",
                      .stem_norm = "bn1",
                      .block = "blocks.{s}.{b}.",
                      .expand = "conv_pw",
                      .expand_norm = "bn{P}",
                      .fused = "conv_exp",
                      .fused_alone = "conv",
                      .depthwise = "conv_dw",
                      .depthwise_norm = "bn{P}",
                      .reduce = "se.conv_reduce",
                      .excite = "se.conv_expand",
                      .project = "conv_pwl",
                      .project_alone = "conv_pw",
                      .project_norm = "bn{P}",
                      .head = "conv_head",
                      .head_norm = "bn2",
                      .logits = "classifier"};
constexpr Names make_timm_v3(const char* head, const char* head_norm) {
  Names names = kTimm;
  names.head = head;
  names.head_norm = head_norm;
  names.hidden = "conv_head";
  return names;
}
constexpr Names kTimmV3Small = make_timm_v3("blocks.5.0.conv", "blocks.5.0.bn1");
constexpr Names kTimmV3Large = make_timm_v3("blocks.6.0.conv", "blocks.6.0.bn1");

// How a window with a stride is padded: by layers before it, as Keras does in the first versions of
// its networks; as "same"; or as in PyTorch.
enum class Pads { kLayers, kSame, kSymmetric };

// What distinguishes the variants.
struct InvertedVariant {
  Family family;
  Variant variant;
  Pads pads;
  double epsilon, momentum;
  const Names& names;
  const Names* names_of_small = nullptr;  // of MobileNetV3Small, where they differ
};
constexpr InvertedVariant kInvertedVariants[] = {
    {Family::kMobileNetV2, Variant::kKeras, Pads::kLayers, 1e-3, 0.999, kKerasV2},
    {Family::kMobileNetV2, Variant::kTorchvision, Pads::kSymmetric, 1e-5, 0.9, kTorchvisionV2},
    {Family::kMobileNetV2, Variant::kTimm, Pads::kSymmetric, 1e-5, 0.9, kTimm},
    {Family::kMobileNetV3, Variant::kKeras, Pads::kLayers, 1e-3, 0.999, kKerasV3},
    {Family::kMobileNetV3, Variant::kTorchvision, Pads::kSymmetric, 1e-3, 0.99, kTorchvisionV3Large,
     &kTorchvisionV3Small},
    {Family::kMobileNetV3, Variant::kTimm, Pads::kSymmetric, 1e-5, 0.9, kTimmV3Large,
     &kTimmV3Small},
    {Family::kMobileNetV3, Variant::kTimmTf, Pads::kSame, 1e-3, 0.9, kTimmV3Large, &kTimmV3Small},
    {Family::kEfficientNet, Variant::kKeras, Pads::kLayers, 1e-3, 0.99, kKerasEfficientNet},
    {Family::kEfficientNet, Variant::kTorchvision, Pads::kSymmetric, 1e-5, 0.9,
     kTorchvisionEfficientNet},
    {Family::kEfficientNet, Variant::kTimm, Pads::kSymmetric, 1e-5, 0.9, kTimm},
    {Family::kEfficientNet, Variant::kTimmTf, Pads::kSame, 1e-3, 0.9, kTimm},
    {Family::kEfficientNetV2, Variant::kKeras, Pads::kSame, 1e-3, 0.9, kKerasEfficientNetV2},
    {Family::kEfficientNetV2, Variant::kTorchvision, Pads::kSymmetric, 1e-3, 0.9,
     kTorchvisionEfficientNetV2},
    {Family::kEfficientNetV2, Variant::kTimm, Pads::kSymmetric, 1e-5, 0.9, kTimm},
    {Family::kEfficientNetV2, Variant::kTimmTf, Pads::kSame, 1e-3, 0.9, kTimm},
};

class InvertedResidualBuilder {
 public:
  InvertedResidualBuilder(const NetworkSpec& spec, const InvertedVariant& variant,
                          const config::Backbone& backbone, Image image)
      : spec_(spec),
        v_(variant),
        n_(spec.name == Name::kMobileNetV3Small && variant.names_of_small != nullptr
               ? *variant.names_of_small
               : variant.names),
        width_(spec.width * backbone.alpha),
        rates_(backbone.drop_path.value_or(is_efficientnet() ? 0.2 : 0), count_blocks()),
        list_(image) {}

  void add_features();
  void add_top(std::int64_t classes);
  Network take() {
    Network network = list_.take();
    network.has_named_pooling = !is(Family::kMobileNetV2);
    return network;
  }

 private:
  bool is(Family family) const { return spec_.family == family; }
  // Keras's drop_connect_rate of EfficientNet is 0.2.
  bool is_efficientnet() const { return is(Family::kEfficientNet) || is(Family::kEfficientNetV2); }
  int count_repeats(const BlockSpec& block) const {
    return static_cast<int>(std::ceil(spec_.depth * block.count));
  }
  int count_blocks() const {
    int count = 0;
    for (const BlockSpec& block : spec_.blocks) count += count_repeats(block);
    return count;
  }
  std::int64_t scale(std::int64_t filters) const;
  void normalise(const std::string& name) { list_.normalise(name, v_.epsilon, v_.momentum); }
  // The activation of the family, or of the block of MobileNetV3.
  void activate(const std::string& name, bool hard_swish);
  void convolution(const std::string& name, std::int64_t filters, std::int64_t size,
                   std::int64_t stride);
  void depthwise(const std::string& prefix, std::int64_t size, std::int64_t stride);
  void squeeze_and_excite(const std::string& prefix, std::int64_t channels, std::int64_t inputs);
  void block(const BlockSpec& block);

  const NetworkSpec& spec_;
  const InvertedVariant& v_;
  const Names& n_;
  double width_;
  DropPathRates rates_;
  LayerList list_;
  Place place_;
  std::int64_t channels_ = 0;
};

std::int64_t InvertedResidualBuilder::scale(std::int64_t filters) const {
  const double scaled = static_cast<double>(filters) * width_;
  // EfficientNetV2 takes the nearest multiple of eight, without a bound.
  if (is(Family::kEfficientNetV2)) return static_cast<std::int64_t>(scaled + 4) / 8 * 8;
  return divisible_by_eight(scaled);
}

void InvertedResidualBuilder::activate(const std::string& name, bool hard_swish) {
  if (is(Family::kMobileNetV2)) return list_.add(name, config::ReluLayer{6.0});
  if (is_efficientnet()) return list_.activate(name, Activation::kSwish);
  if (hard_swish) return list_.activate(name, Activation::kHardSwish);
  list_.add(name, config::ReluLayer{});
}

void InvertedResidualBuilder::convolution(const std::string& name, std::int64_t filters,
                                          std::int64_t size, std::int64_t stride) {
  ConvolutionSpec conv{filters, size, stride};
  if (stride == 2 && v_.pads == Pads::kSymmetric) conv.padding = symmetric_padding(size);
  list_.convolution(name, conv);
  channels_ = filters;
}

void InvertedResidualBuilder::depthwise(const std::string& prefix, std::int64_t size,
                                        std::int64_t stride) {
  config::DepthwiseConvLayer conv;
  conv.kernel_size = {size, size};
  conv.strides = {stride, stride};
  conv.use_bias = false;
  conv.padding.kind = config::Padding::Kind::kSame;
  if (stride == 2 && v_.pads == Pads::kSymmetric) conv.padding = symmetric_padding(size);
  if (stride == 2 && v_.pads == Pads::kLayers) {
    list_.pad_for_stride(prefix + n_.pad, size);
    conv.padding = {};
  }
  list_.add(prefix + fill_in(n_.depthwise, place_), conv);
  normalise(prefix + fill_in(n_.depthwise_norm, place_));
}

// Multiplies the channels of the last layer by factors computed from their means. EfficientNet
// computes them through a quarter of the block's inputs, MobileNetV3 of the channels.
void InvertedResidualBuilder::squeeze_and_excite(const std::string& prefix, std::int64_t channels,
                                                 std::int64_t inputs) {
  const std::string input = list_.last();
  const auto name = [&](const char* layer) { return prefix + fill_in(layer, place_); };
  ConvolutionSpec reduce{std::max<std::int64_t>(1, inputs / 4)}, excite{channels};
  reduce.bias = excite.bias = true;
  const bool is_v3 = is(Family::kMobileNetV3);
  if (is_v3) reduce.filters = divisible_by_eight(static_cast<double>(channels) * 0.25);
  if (!is_v3) reduce.activation = Activation::kSwish;
  if (!is_v3) excite.activation = Activation::kSigmoid;
  const bool has_reshape = n_.squeeze_reshape != nullptr;
  list_.add(name(n_.squeeze), config::GlobalAveragePoolLayer{!has_reshape});
  if (has_reshape) list_.add(name(n_.squeeze_reshape), config::ReshapeLayer{{1, 1, channels}});
  list_.convolution(name(n_.reduce), reduce);
  if (is_v3) list_.add(name(n_.reduce_activation), config::ReluLayer{});
  list_.convolution(name(n_.excite), excite);
  if (is_v3) list_.activate(name(n_.excite_activation), Activation::kHardSigmoid);
  const std::string factors = list_.last();
  list_.add(name(n_.multiply), config::MultiplyLayer{}, {input, factors});
}

void InvertedResidualBuilder::block(const BlockSpec& block) {
  list_.begin_group();
  const bool is_first = place_.number == 0 && n_.first_block != nullptr;
  const std::string prefix = fill_in(is_first ? n_.first_block : n_.block, place_);
  const auto name = [&](const char* layer) { return prefix + fill_in(layer, place_); };
  const std::string input = list_.last();
  const std::int64_t inputs = channels_, stride = place_.block == 0 ? block.stride : 1;
  // Keras's MobileNetV2 rounds down once before it makes the number divisible.
  const std::int64_t filters =
      is(Family::kMobileNetV2) && v_.variant == Variant::kKeras
          ? divisible_by_eight(std::floor(static_cast<double>(block.filters) * width_))
          : scale(block.filters);
  const bool expands = block.expansion != 1;
  double expanded = static_cast<double>(inputs) * block.expansion;
  if (is(Family::kMobileNetV3)) expanded = static_cast<double>(divisible_by_eight(expanded));
  const auto channels = static_cast<std::int64_t>(expanded);
  place_.part = 0;
  const double drop_path = rates_.next();
  if (block.is_fused) {
    convolution(name(expands ? n_.fused : n_.fused_alone), expands ? channels : filters, block.size,
                stride);
    normalise(name(expands ? n_.expand_norm : n_.project_norm));
    activate(prefix + (expands ? n_.expand_activation : "project_activation"), true);
    ++place_.part;
  } else {
    if (expands) {
      convolution(name(n_.expand), channels, 1, 1);
      normalise(name(n_.expand_norm));
      activate(name(n_.expand_activation), block.hard_swish);
      ++place_.part;
    }
    depthwise(prefix, block.size, stride);
    activate(name(n_.activation), block.hard_swish);
    ++place_.part;
    if (block.has_squeeze) squeeze_and_excite(prefix, channels, inputs);
    if (block.has_squeeze && n_.squeeze_is_part) ++place_.part;
  }
  if (!block.is_fused || expands) {
    convolution(name(expands ? n_.project : n_.project_alone), filters, 1, 1);
    normalise(name(n_.project_norm));
  }
  if (stride == 1 && inputs == filters) {
    list_.drop_path(prefix + "drop", drop_path);
    const std::string last = list_.last();
    list_.add(prefix + "add", config::AddLayer{},
              is_efficientnet() ? LayerList::Names{last, input} : LayerList::Names{input, last});
  }
}

void InvertedResidualBuilder::add_features() {
  if (is(Family::kEfficientNet) && v_.pads == Pads::kLayers) {
    list_.pad_for_stride("stem_conv_pad", 3);
    ConvolutionSpec stem{scale(spec_.stem), 3, 2, {}};
    list_.convolution(n_.stem, stem);
    channels_ = stem.filters;
  } else {
    convolution(n_.stem, is(Family::kMobileNetV3) ? spec_.stem : scale(spec_.stem), 3, 2);
    list_.halve();
  }
  normalise(n_.stem_norm);
  activate(n_.stem_activation, true);
  const BlockSpec* before = nullptr;
  for (const BlockSpec& each : spec_.blocks) {
    // Blocks of the same filters are a stage.
    if (before != nullptr && before->filters != each.filters) {
      ++place_.stage;
      place_.block = 0;
    }
    for (int i = 0; i < count_repeats(each); ++i) {
      block(each);
      ++place_.block;
      ++place_.number;
    }
    before = &each;
  }
  std::int64_t filters = width_ > 1 || is_efficientnet() ? scale(spec_.head) : spec_.head;
  if (is(Family::kMobileNetV3)) {
    list_.begin_group();
    filters = divisible_by_eight(static_cast<double>(channels_) * 6);
  }
  convolution(n_.head, filters, 1, 1);
  normalise(n_.head_norm);
  activate(n_.head_activation, true);
}

void InvertedResidualBuilder::add_top(std::int64_t classes) {
  if (!is(Family::kMobileNetV3)) {
    return list_.classify(n_.pool, spec_.dropout, n_.logits, classes);
  }
  ConvolutionSpec hidden{width_ > 1 ? scale(spec_.head) : spec_.head}, logits{classes};
  hidden.bias = logits.bias = true;
  list_.begin_head();
  list_.add(n_.pool, config::GlobalAveragePoolLayer{true});
  list_.convolution(n_.hidden, hidden);
  if (v_.variant == Variant::kTorchvision) list_.mark_reshaped();
  list_.activate("conv_2_activation", Activation::kHardSwish);
  list_.add("dropout", config::DropoutLayer{0.2});
  list_.convolution(n_.logits, logits);
  list_.mark_reshaped();
  list_.add("flatten", config::FlattenLayer{});
}

}  // namespace

Network inverted_residuals(const config::Backbone& backbone, Image image, std::int64_t classes) {
  const auto* spec = std::ranges::find(kNetworks, backbone.name, &NetworkSpec::name);
  if (spec == std::end(kNetworks)) return {};
  const Variant variant = config::find_variant(backbone);
  const auto* row = std::ranges::find_if(kInvertedVariants, [&](const InvertedVariant& each) {
    return each.family == spec->family && each.variant == variant;
  });
  InvertedResidualBuilder builder(*spec, *row, backbone, image);
  builder.add_features();
  if (backbone.include_top) builder.add_top(classes);
  return builder.take();
}

}  // namespace trainer::model
