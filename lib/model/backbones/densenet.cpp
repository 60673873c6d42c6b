// DenseNet121 (Huang et al., arXiv:1608.06993) of keras.applications, torchvision and timm.
#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Variant = config::Backbone::Variant;

constexpr std::int64_t kGrowth = 32;
constexpr config::Padding kValidPadding{};

// What distinguishes the variants. See fill_in() for the names. timm's names are torchvision's.
struct DenseNetVariant {
  double epsilon, momentum;
  const char *stem_pad, *stem_conv, *stem_norm, *stem_relu, *pool_pad, *stem_pool;
  const char *block, *norm, *relu, *conv, *concatenate;
  const char *transition, *end_norm, *end_relu, *dense;
};
constexpr DenseNetVariant kKerasDenseNet{
    1.001e-5,     0.99,         "",       "conv1_conv",        "conv1_bn",
    "conv1_relu", "",           "pool1",  "conv{S}_block{B}_", "{p}_bn",
    "{p}_relu",   "{P}_conv",   "concat", "pool{S}_",          "bn",
    "relu",       "predictions"};
constexpr DenseNetVariant kTorchvisionDenseNet{1e-5,
                                               0.9,
                                               "features.pad0",
                                               "features.conv0",
                                               "features.norm0",
                                               "features.relu0",
                                               "features.pad1",
                                               "features.pool0",
                                               "features.denseblock{s}.denselayer{B}.",
                                               "norm{P}",
                                               "relu{P}",
                                               "conv{P}",
                                               "concat",
                                               "features.transition{s}.",
                                               "features.norm5",
                                               "features.relu5",
                                               "classifier"};

void add_block(LayerList& list, const DenseNetVariant& v, Place place) {
  list.begin_group();
  const std::string block = fill_in(v.block, place), input = list.last();
  for (place.part = 0; place.part < 2; ++place.part) {
    const auto name = [&](const char* layer) { return block + fill_in(layer, place); };
    list.normalise(name(v.norm), v.epsilon, v.momentum);
    list.activate(name(v.relu), config::Activation::kRelu);
    list.convolution(name(v.conv), place.part == 0
                                       ? ConvolutionSpec{4 * kGrowth, 1, 1, kValidPadding}
                                       : ConvolutionSpec{kGrowth, 3});
  }
  const std::string output = list.last();
  list.add(block + v.concatenate, config::ConcatenateLayer{}, {input, output});
}

// Halves the channels and the image.
void add_transition(LayerList& list, const DenseNetVariant& v, int stage, std::int64_t channels) {
  const bool is_keras = &v == &kKerasDenseNet;
  const std::string name = fill_in(v.transition, {stage});
  list.normalise(name + (is_keras ? "bn" : "norm"), v.epsilon, v.momentum);
  list.activate(name + "relu", config::Activation::kRelu);
  list.convolution(name + "conv", {channels / 2, 1, 1, kValidPadding});
  list.add(name + "pool", config::AveragePoolLayer{{2, 2}, config::Pair{2, 2}, {}});
}

}  // namespace

Network densenet(const config::Backbone& backbone, Image, std::int64_t classes) {
  if (backbone.name != config::Backbone::Name::kDenseNet121) return {};
  constexpr int kBlocks[] = {6, 12, 24, 16};
  const DenseNetVariant& v =
      config::find_variant(backbone) == Variant::kKeras ? kKerasDenseNet : kTorchvisionDenseNet;
  LayerList list;
  list.add(v.stem_pad, config::ZeroPadLayer{{3, 3, 3, 3}});
  list.convolution(v.stem_conv, {64, 7, 2, kValidPadding});
  list.normalise(v.stem_norm, v.epsilon, v.momentum);
  list.activate(v.stem_relu, config::Activation::kRelu);
  list.add(v.pool_pad, config::ZeroPadLayer{{1, 1, 1, 1}});
  list.add(v.stem_pool, config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, {}});
  std::int64_t channels = 64;
  for (int stage = 1; stage <= 4; ++stage) {
    if (stage > 1) {
      add_transition(list, v, stage - 1, channels);
      channels /= 2;
    }
    const int blocks = kBlocks[stage - 1];
    for (int i = 0; i < blocks; ++i) add_block(list, v, {stage, i});
    channels += blocks * kGrowth;
  }
  list.begin_head();
  list.normalise(v.end_norm, v.epsilon, v.momentum);
  list.activate(v.end_relu, config::Activation::kRelu);
  if (backbone.include_top) list.classify("avg_pool", 0, v.dense, classes);
  return list.take();
}

}  // namespace trainer::model
