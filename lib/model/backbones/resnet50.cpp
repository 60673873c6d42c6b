// ResNet50 and ResNet101 (He et al., arXiv:1512.03385) of keras.applications, version 1, and of
// torchvision, version 1.5.
#include <algorithm>

#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Variant = config::Backbone::Variant;

// What distinguishes the variants. In names, # stands for the number of a layer within its block,
// and & and * for the numbers of the stage and of the block within it.
struct BottleneckVariant {
  Variant variant;
  double epsilon, momentum;
  int strided;          // the convolution of a block that has its stride: 1 or 2
  bool has_bias;        // of convolutions
  bool has_pad_layers;  // the stem pads in layers of its own
  config::Initializer::Kind initializer;
  int first_stage, first_block;  // their numbers
  const char *block, *conv, *norm, *relu, *shortcut, *shortcut_norm, *drop_path;
  const char *stem_conv, *stem_norm, *stem_relu, *stem_pool;
};

constexpr BottleneckVariant kVariants[] = {
    {Variant::kKeras,
     1.001e-5,
     0.99,
     1,
     true,
     true,
     config::Initializer::Kind::kGlorotUniform,
     2,
     1,
     "conv&_block*_",
     "#_conv",
     "#_bn",
     "#_relu",
     "0_conv",
     "0_bn",
     "drop",
     "conv1_conv",
     "conv1_bn",
     "conv1_relu",
     "pool1_pool"},
    {Variant::kTorchvision,
     1e-5,
     0.9,
     2,
     false,
     false,
     config::Initializer::Kind::kHeNormal,
     1,
     0,
     "layer&.*.",
     "conv#",
     "bn#",
     "relu#",
     "downsample.0",
     "downsample.1",
     "drop_path",
     "conv1",
     "bn1",
     "relu",
     "maxpool"},
};

std::string number(std::string name, char mark, int by) {
  return name.replace(name.find(mark), 1, std::to_string(by));
}

class BottleneckResNetBuilder {
 public:
  explicit BottleneckResNetBuilder(Variant variant)
      : v_(*std::ranges::find(kVariants, variant, &BottleneckVariant::variant)) {}

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
    stem();
    int stage_number = v_.first_stage;
    for (const Stage& stage : stages) {
      for (int i = 0; i < stage.blocks; ++i) {
        const std::string name = number(v_.block, '&', stage_number);
        bottleneck(number(name, '*', v_.first_block + i), stage.filters, i == 0 ? stage.stride : 1,
                   i == 0, rates.next());
      }
      ++stage_number;
    }
    return list_.take();
  }

 private:
  void convolution(const std::string& name, std::int64_t filters, std::int64_t size,
                   std::int64_t stride, LayerList::Names inputs = {}) {
    config::ConvLayer conv;
    conv.filters = filters;
    conv.kernel_size = {size, size};
    conv.strides = {stride, stride};
    conv.use_bias = v_.has_bias;
    conv.kernel_initializer.kind = v_.initializer;
    if (size == 3 && v_.has_pad_layers) conv.padding.kind = config::Padding::Kind::kSame;
    if (size > 1 && !v_.has_pad_layers) conv.padding = pad(size / 2);
    list_.add(name, conv, std::move(inputs));
  }
  static config::Padding pad(std::int64_t pixels) {
    return {config::Padding::Kind::kExplicit, {pixels, pixels, pixels, pixels}};
  }
  void normalise(const std::string& name, LayerList::Names inputs = {}) {
    list_.normalise(name, v_.epsilon, v_.momentum, std::move(inputs));
  }
  void relu(const std::string& name) { list_.activate(name, config::Activation::kRelu); }

  void stem();
  void bottleneck(const std::string& block, std::int64_t filters, std::int64_t stride,
                  bool shortcut, double drop_path);

  const BottleneckVariant& v_;
  LayerList list_;
};

void BottleneckResNetBuilder::stem() {
  if (v_.has_pad_layers) list_.add("conv1_pad", config::ZeroPadLayer{{3, 3, 3, 3}});
  convolution(v_.stem_conv, 64, 7, 2);
  normalise(v_.stem_norm);
  relu(v_.stem_relu);
  if (v_.has_pad_layers) list_.add("pool1_pad", config::ZeroPadLayer{{1, 1, 1, 1}});
  const config::Padding padding = v_.has_pad_layers ? config::Padding{} : pad(1);
  list_.add(v_.stem_pool, config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, padding});
}

// Keras sorts its layers by depth, so that the shortcut's stand between those of the third
// convolution.
void BottleneckResNetBuilder::bottleneck(const std::string& block, std::int64_t filters,
                                         std::int64_t stride, bool shortcut, double drop_path) {
  const std::string input = list_.last();
  const auto name = [&](const char* layer, int i) { return block + number(layer, '#', i); };
  convolution(name(v_.conv, 1), filters, 1, v_.strided == 1 ? stride : 1);
  normalise(name(v_.norm, 1));
  relu(name(v_.relu, 1));
  convolution(name(v_.conv, 2), filters, 3, v_.strided == 2 ? stride : 1);
  normalise(name(v_.norm, 2));
  relu(name(v_.relu, 2));
  if (shortcut) convolution(block + v_.shortcut, 4 * filters, 1, stride, {input});
  convolution(name(v_.conv, 3), 4 * filters, 1, 1, {name(v_.relu, 2)});
  if (shortcut) normalise(block + v_.shortcut_norm, {block + v_.shortcut});
  normalise(name(v_.norm, 3), {name(v_.conv, 3)});
  list_.drop_path(block + v_.drop_path, drop_path);
  list_.add(block + "add", config::AddLayer{},
            {shortcut ? block + v_.shortcut_norm : input, list_.last()});
  relu(block + "out");
}

}  // namespace

std::vector<config::Layer> resnet50_features(config::Backbone::Variant variant, double drop_path) {
  return BottleneckResNetBuilder(variant).build(6, drop_path);
}
std::vector<config::Layer> resnet101_features(config::Backbone::Variant variant, double drop_path) {
  return BottleneckResNetBuilder(variant).build(23, drop_path);
}

}  // namespace trainer::model
