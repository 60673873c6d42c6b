// keras.applications.EfficientNetB0 to B3 (Tan and Le, arXiv:1905.11946), without the layers that
// prepare the image, which data.preprocess does.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr double kEfficientNetEpsilon = 1e-3;

struct StageSpec {
  std::int64_t size, filters;
  int blocks;
  std::int64_t expansion, stride;
};
constexpr StageSpec kEfficientNetStages[] = {{3, 16, 1, 1, 1}, {3, 24, 2, 6, 2},  {5, 40, 2, 6, 2},
                                             {3, 80, 3, 6, 2}, {5, 112, 3, 6, 1}, {5, 192, 4, 6, 2},
                                             {3, 320, 1, 6, 1}};

struct BlockSpec {
  std::int64_t size, stride, inputs, filters, expansion;
  double drop_path;
};

// Multiplies the channels of the last layer by factors computed from their means.
void squeeze_and_excite(LayerList& list, const std::string& prefix, std::int64_t channels,
                        std::int64_t squeezed) {
  const std::string input = list.last();
  config::ReshapeLayer reshape;
  reshape.target_shape = {1, 1, channels};
  list.add(prefix + "se_squeeze", config::GlobalAveragePoolLayer{});
  list.add(prefix + "se_reshape", reshape);
  ConvolutionSpec reduce{squeezed}, expand{channels};
  reduce.bias = expand.bias = true;
  reduce.activation = config::Activation::kSwish;
  expand.activation = config::Activation::kSigmoid;
  list.convolution(prefix + "se_reduce", reduce);
  list.convolution(prefix + "se_expand", expand);
  list.add(prefix + "se_excite", config::MultiplyLayer{}, {input, prefix + "se_expand"});
}

void inverted_residual(LayerList& list, const std::string& prefix, const BlockSpec& block) {
  const std::string input = list.last();
  const std::int64_t channels = block.inputs * block.expansion;
  if (block.expansion != 1) {
    list.convolution(prefix + "expand_conv", {channels});
    list.normalise(prefix + "expand_bn", kEfficientNetEpsilon);
    list.activate(prefix + "expand_activation", config::Activation::kSwish);
  }
  list.depthwise(prefix + "dwconv", prefix + "dwconv_pad", block.size, block.stride);
  list.normalise(prefix + "bn", kEfficientNetEpsilon);
  list.activate(prefix + "activation", config::Activation::kSwish);
  squeeze_and_excite(list, prefix, channels, std::max<std::int64_t>(1, block.inputs / 4));
  list.convolution(prefix + "project_conv", {block.filters});
  list.normalise(prefix + "project_bn", kEfficientNetEpsilon);
  if (block.stride != 1 || block.inputs != block.filters) return;
  list.drop_path(prefix + "drop", block.drop_path);
  list.add(prefix + "add", config::AddLayer{}, {list.last(), input});
}

}  // namespace

std::vector<config::Layer> efficientnet_features(Image image, double width, double depth,
                                                 double drop_path) {
  const auto repeats = [depth](const StageSpec& stage) {
    return static_cast<int>(std::ceil(depth * stage.blocks));
  };
  int blocks = 0;
  for (const StageSpec& stage : kEfficientNetStages) blocks += repeats(stage);
  DropPathRates rates(drop_path, blocks);
  LayerList list(image);
  std::int64_t channels = divisible_by_eight(32 * width);
  list.pad_for_stride("stem_conv_pad", 3);
  list.convolution("stem_conv", {channels, 3, 2, config::Padding::Kind::kValid});
  list.normalise("stem_bn", kEfficientNetEpsilon);
  list.activate("stem_activation", config::Activation::kSwish);
  int number = 0;
  for (const StageSpec& stage : kEfficientNetStages) {
    ++number;
    for (int i = 0; i < repeats(stage); ++i) {
      const std::int64_t filters = divisible_by_eight(static_cast<double>(stage.filters) * width);
      inverted_residual(list, concat("block", number, static_cast<char>('a' + i), '_'),
                        {stage.size, i == 0 ? stage.stride : 1, channels, filters, stage.expansion,
                         rates.next()});
      channels = filters;
    }
  }
  list.convolution("top_conv", {divisible_by_eight(1280 * width)});
  list.normalise("top_bn", kEfficientNetEpsilon);
  list.activate("top_activation", config::Activation::kSwish);
  return list.take();
}

}  // namespace trainer::model
