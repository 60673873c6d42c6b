// keras.applications.MobileNetV3Small and Large (Howard et al., arXiv:1905.02244), without the
// layer that prepares the image, which data.preprocess does. Keras's hard_sigmoid is three layers
// (add, ReLU, multiply), here it is one.
#include "base/error.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr double kMobileNetV3Epsilon = 1e-3, kMobileNetV3Momentum = 0.999;

struct BottleneckSpec {
  double expansion;
  std::int64_t filters, size, stride;
  bool squeeze, hard_swish;
};
constexpr BottleneckSpec kSmall[] = {{1, 16, 3, 2, true, false},
                                     {72.0 / 16, 24, 3, 2, false, false},
                                     {88.0 / 24, 24, 3, 1, false, false},
                                     {4, 40, 5, 2, true, true},
                                     {6, 40, 5, 1, true, true},
                                     {6, 40, 5, 1, true, true},
                                     {3, 48, 5, 1, true, true},
                                     {3, 48, 5, 1, true, true},
                                     {6, 96, 5, 2, true, true},
                                     {6, 96, 5, 1, true, true},
                                     {6, 96, 5, 1, true, true}};
constexpr BottleneckSpec kLarge[] = {
    {1, 16, 3, 1, false, false},  {4, 24, 3, 2, false, false},  {3, 24, 3, 1, false, false},
    {3, 40, 5, 2, true, false},   {3, 40, 5, 1, true, false},   {3, 40, 5, 1, true, false},
    {6, 80, 3, 2, false, true},   {2.5, 80, 3, 1, false, true}, {2.3, 80, 3, 1, false, true},
    {2.3, 80, 3, 1, false, true}, {6, 112, 3, 1, true, true},   {6, 112, 3, 1, true, true},
    {6, 160, 5, 2, true, true},   {6, 160, 5, 1, true, true},   {6, 160, 5, 1, true, true}};

void activate(LayerList& list, const std::string& name, bool hard_swish) {
  if (hard_swish) return list.activate(name, config::Activation::kHardSwish);
  list.add(name, config::ReluLayer{});
}

// Multiplies the channels of the last layer by factors computed from their means.
void squeeze_and_excite(LayerList& list, const std::string& prefix, std::int64_t channels) {
  const std::string input = list.last(), start = prefix + "squeeze_excite_";
  list.add(start + "avg_pool", config::GlobalAveragePoolLayer{true});
  ConvolutionSpec reduce{divisible_by_eight(static_cast<double>(channels) * 0.25)},
      expand{channels};
  reduce.bias = expand.bias = true;
  list.convolution(start + "conv", reduce);
  list.add(start + "relu", config::ReluLayer{});
  list.convolution(start + "conv_1", expand);
  list.activate(start + "hard_sigmoid", config::Activation::kHardSigmoid);
  list.add(start + "mul", config::MultiplyLayer{}, {input, start + "hard_sigmoid"});
}

// Returns the number of its channels.
std::int64_t inverted_residual(LayerList& list, int number, const BottleneckSpec& block,
                               std::int64_t inputs, double alpha, double drop_path) {
  const std::string prefix = number == 0 ? "expanded_conv_" : concat("expanded_conv_", number, '_');
  const std::string input = list.last();
  const std::int64_t filters = divisible_by_eight(static_cast<double>(block.filters) * alpha);
  const std::int64_t channels = divisible_by_eight(static_cast<double>(inputs) * block.expansion);
  if (number > 0) {
    list.convolution(prefix + "expand", {channels});
    list.normalise(prefix + "expand_bn", kMobileNetV3Epsilon, kMobileNetV3Momentum);
    activate(list, prefix + "expand_activation", block.hard_swish);
  }
  list.depthwise(prefix + "depthwise", prefix + "depthwise_pad", block.size, block.stride);
  list.normalise(prefix + "depthwise_bn", kMobileNetV3Epsilon, kMobileNetV3Momentum);
  activate(list, prefix + "depthwise_activation", block.hard_swish);
  if (block.squeeze) squeeze_and_excite(list, prefix, channels);
  list.convolution(prefix + "project", {filters});
  list.normalise(prefix + "project_bn", kMobileNetV3Epsilon, kMobileNetV3Momentum);
  if (block.stride == 1 && inputs == filters) {
    list.drop_path(prefix + "drop", drop_path);
    list.add(prefix + "add", config::AddLayer{}, {input, list.last()});
  }
  return filters;
}

template <std::size_t N>
std::vector<config::Layer> features(Image image, double alpha, const BottleneckSpec (&blocks)[N],
                                    double drop_path) {
  DropPathRates rates(drop_path, static_cast<int>(N));
  LayerList list(image);
  std::int64_t channels = 16;
  list.convolution("conv", {channels, 3, 2});
  list.halve();
  list.normalise("conv_bn", kMobileNetV3Epsilon, kMobileNetV3Momentum);
  list.activate("conv_activation", config::Activation::kHardSwish);
  int number = 0;
  for (const BottleneckSpec& block : blocks) {
    channels = inverted_residual(list, number++, block, channels, alpha, rates.next());
  }
  list.convolution("conv_1", {divisible_by_eight(static_cast<double>(channels) * 6)});
  list.normalise("conv_1_bn", kMobileNetV3Epsilon, kMobileNetV3Momentum);
  list.activate("conv_1_activation", config::Activation::kHardSwish);
  return list.take();
}

}  // namespace

std::vector<config::Layer> mobilenet_v3_features(Image image, double alpha, bool large,
                                                 double drop_path) {
  return large ? features(image, alpha, kLarge, drop_path)
               : features(image, alpha, kSmall, drop_path);
}

std::vector<config::Layer> mobilenet_v3_top(double alpha, bool large, std::int64_t classes) {
  LayerList list;
  const double units = large ? 1280 : 1024;
  ConvolutionSpec last{alpha > 1 ? divisible_by_eight(units * alpha)
                                 : static_cast<std::int64_t>(units)},
      logits{classes};
  last.bias = logits.bias = true;
  list.add("global_average_pooling2d", config::GlobalAveragePoolLayer{true});
  list.convolution("conv_2", last);
  list.activate("conv_2_activation", config::Activation::kHardSwish);
  list.add("dropout", config::DropoutLayer{0.2});
  list.convolution("logits", logits);
  list.add("flatten", config::FlattenLayer{});
  return list.take();
}

}  // namespace trainer::model
