// torchvision's resnet18 and resnet34 (He et al., arXiv:1512.03385), with the names of its modules:
// Keras has neither.
#include <numeric>

#include "base/error.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr double kResNet18Epsilon = 1e-5, kResNet18Momentum = 0.9;

// Adds a convolution with PyTorch's padding, the same on all sides.
void convolution(LayerList& list, const std::string& name, std::int64_t filters, std::int64_t size,
                 std::int64_t stride, std::vector<std::string> inputs = {}) {
  config::ConvLayer conv;
  conv.filters = filters;
  conv.kernel_size = {size, size};
  conv.strides = {stride, stride};
  const std::int64_t pad = size / 2;
  conv.padding = {config::Padding::Kind::kExplicit, {pad, pad, pad, pad}};
  conv.use_bias = false;
  list.add(name, conv, std::move(inputs));
}

void block(LayerList& list, const std::string& name, std::int64_t filters, std::int64_t stride,
           bool shortcut, double drop_path) {
  const std::string input = list.last();
  convolution(list, name + "conv1", filters, 3, stride);
  list.normalise(name + "bn1", kResNet18Epsilon, kResNet18Momentum);
  list.activate(name + "relu", config::Activation::kRelu);
  convolution(list, name + "conv2", filters, 3, 1);
  list.normalise(name + "bn2", kResNet18Epsilon, kResNet18Momentum);
  list.drop_path(name + "drop_path", drop_path);
  const std::string main = list.last();
  if (shortcut) {
    convolution(list, name + "downsample.0", filters, 1, stride, {input});
    list.normalise(name + "downsample.1", kResNet18Epsilon, kResNet18Momentum);
  }
  list.add(name + "add", config::AddLayer{}, {main, shortcut ? name + "downsample.1" : input});
  list.activate(name + "out", config::Activation::kRelu);
}

}  // namespace

std::vector<config::Layer> resnet18_features(const std::array<int, 4>& blocks, double drop_path) {
  DropPathRates rates(drop_path, std::accumulate(blocks.begin(), blocks.end(), 0) - 1);
  LayerList list;
  convolution(list, "conv1", 64, 7, 2);
  list.normalise("bn1", kResNet18Epsilon, kResNet18Momentum);
  list.activate("relu", config::Activation::kRelu);
  list.add("maxpool",
           config::MaxPoolLayer{
               {3, 3}, config::Pair{2, 2}, {config::Padding::Kind::kExplicit, {1, 1, 1, 1}}});
  std::int64_t filters = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage, filters *= 2) {
    for (int i = 0; i < blocks[stage]; ++i) {
      const bool first = i == 0 && stage > 0;
      block(list, concat("layer", stage + 1, '.', i, '.'), filters, first ? 2 : 1, first,
            rates.next());
    }
  }
  return list.take();
}

}  // namespace trainer::model
