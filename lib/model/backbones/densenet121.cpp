// keras.applications.DenseNet121 (Huang et al., arXiv:1608.06993).
#include "base/error.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr double kDenseNetEpsilon = 1.001e-5;
constexpr std::int64_t kGrowth = 32;
constexpr auto kValidPadding = config::Padding::Kind::kValid;

void dense_block(LayerList& list, const std::string& name, int blocks) {
  for (int i = 1; i <= blocks; ++i) {
    const std::string block = concat(name, "_block", i), input = list.last();
    list.normalise(block + "_0_bn", kDenseNetEpsilon);
    list.activate(block + "_0_relu", config::Activation::kRelu);
    list.convolution(block + "_1_conv", {4 * kGrowth, 1, 1, kValidPadding});
    list.normalise(block + "_1_bn", kDenseNetEpsilon);
    list.activate(block + "_1_relu", config::Activation::kRelu);
    list.convolution(block + "_2_conv", {kGrowth, 3});
    list.add(block + "_concat", config::ConcatenateLayer{}, {input, block + "_2_conv"});
  }
}

// Halves the channels and the image.
void transition(LayerList& list, const std::string& name, std::int64_t channels) {
  list.normalise(name + "_bn", kDenseNetEpsilon);
  list.activate(name + "_relu", config::Activation::kRelu);
  list.convolution(name + "_conv", {channels / 2, 1, 1, kValidPadding});
  list.add(name + "_pool", config::AveragePoolLayer{{2, 2}, config::Pair{2, 2}, {}});
}

}  // namespace

std::vector<config::Layer> densenet121_features() {
  constexpr int kBlocks[] = {6, 12, 24, 16};
  LayerList list;
  list.add("", config::ZeroPadLayer{{3, 3, 3, 3}});
  list.convolution("conv1_conv", {64, 7, 2, kValidPadding});
  list.normalise("conv1_bn", kDenseNetEpsilon);
  list.activate("conv1_relu", config::Activation::kRelu);
  list.add("", config::ZeroPadLayer{{1, 1, 1, 1}});
  list.add("pool1", config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, {}});
  std::int64_t channels = 64;
  int number = 1;
  for (const int blocks : kBlocks) {
    if (number > 1) {
      transition(list, concat("pool", number), channels);
      channels /= 2;
    }
    dense_block(list, concat("conv", ++number), blocks);
    channels += blocks * kGrowth;
  }
  list.normalise("bn", kDenseNetEpsilon);
  list.activate("relu", config::Activation::kRelu);
  return list.take();
}

}  // namespace trainer::model
