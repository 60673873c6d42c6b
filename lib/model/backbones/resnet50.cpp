// keras.applications.ResNet50 and ResNet101, version 1 (He et al., arXiv:1512.03385): the stride is
// in the first 1x1 convolution of a block, not in the 3x3 as in torchvision.
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

class BottleneckResNetBuilder {
 public:
  // `blocks` is the number of blocks of the third stage, the only one that differs.
  std::vector<config::Layer> build(int blocks, double drop_path) && {
    struct Stage {
      std::int64_t filters;
      int blocks, stride;
    };
    const Stage stages[] = {{64, 3, 1}, {128, 4, 2}, {256, blocks, 2}, {512, 3, 2}};
    int all_blocks = 0;
    for (const Stage& stage : stages) all_blocks += stage.blocks;
    DropPathRates rates(drop_path, all_blocks - 1);
    list_.add("conv1_pad", config::ZeroPadLayer{{3, 3, 3, 3}});
    convolution("conv1_conv", 64, 7, 2, config::Padding::Kind::kValid);
    normalise("conv1_bn");
    relu("conv1_relu");
    list_.add("pool1_pad", config::ZeroPadLayer{{1, 1, 1, 1}});
    list_.add("pool1_pool", config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, {}});
    int stage_number = 1;
    for (const Stage& stage : stages) {
      ++stage_number;
      for (int i = 1; i <= stage.blocks; ++i) {
        bottleneck(concat("conv", stage_number, "_block", i), stage.filters,
                   i == 1 ? stage.stride : 1, i == 1, rates.next());
      }
    }
    return list_.take();
  }

 private:
  void convolution(const std::string& name, std::int64_t filters, std::int64_t size,
                   std::int64_t stride, config::Padding::Kind padding,
                   LayerList::Names inputs = {}) {
    list_.convolution(name, {filters, size, stride, padding, true}, std::move(inputs));
  }
  void normalise(const std::string& name, LayerList::Names inputs = {}) {
    list_.normalise(name, 1.001e-5, 0.99, std::move(inputs));
  }
  void relu(const std::string& name) { list_.activate(name, config::Activation::kRelu); }

  // Keras sorts its layers by depth, so that the shortcut's stand between those of the third
  // convolution.
  void bottleneck(const std::string& block, std::int64_t filters, std::int64_t stride,
                  bool shortcut, double drop_path) {
    const std::string input = list_.last();
    constexpr auto kValid = config::Padding::Kind::kValid;
    convolution(block + "_1_conv", filters, 1, stride, kValid);
    normalise(block + "_1_bn");
    relu(block + "_1_relu");
    convolution(block + "_2_conv", filters, 3, 1, config::Padding::Kind::kSame);
    normalise(block + "_2_bn");
    relu(block + "_2_relu");
    if (shortcut) convolution(block + "_0_conv", 4 * filters, 1, stride, kValid, {input});
    convolution(block + "_3_conv", 4 * filters, 1, 1, kValid, {block + "_2_relu"});
    if (shortcut) normalise(block + "_0_bn", {block + "_0_conv"});
    normalise(block + "_3_bn", {block + "_3_conv"});
    list_.drop_path(block + "_drop", drop_path);
    list_.add(block + "_add", config::AddLayer{},
              {shortcut ? block + "_0_bn" : input, list_.last()});
    relu(block + "_out");
  }

  LayerList list_;
};

}  // namespace

std::vector<config::Layer> resnet50_features(double drop_path) {
  return BottleneckResNetBuilder().build(6, drop_path);
}
std::vector<config::Layer> resnet101_features(double drop_path) {
  return BottleneckResNetBuilder().build(23, drop_path);
}

}  // namespace trainer::model
