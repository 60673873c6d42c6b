// ResNet (He et al., arXiv:1512.03385): version 1 of keras.applications, and version 1.5 of
// torchvision, timm and transformers. ResNeXt (arXiv:1611.05431) and Wide ResNet
// (arXiv:1605.07146) of torchvision. The networks for CIFAR-10, in which a shortcut takes every
// second pixel and has channels of zeros, of https://github.com/akamaster/pytorch_resnet_cifar10.
#include <algorithm>
#include <array>
#include <numeric>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Variant = config::Backbone::Variant;

struct ResNetSpec {
  Name name;
  std::array<int, 4> blocks;  // of each stage
  bool is_bottleneck = true;
  std::int64_t groups = 1, group_width = 64;  // of the 3x3 convolution of the first bottlenecks
  bool is_cifar = false;
};
constexpr ResNetSpec kResNets[] = {
    {Name::kResNet18, {2, 2, 2, 2}, false},
    {Name::kResNet34, {3, 4, 6, 3}, false},
    {Name::kResNet50, {3, 4, 6, 3}},
    {Name::kResNet101, {3, 4, 23, 3}},
    {Name::kResNet152, {3, 8, 36, 3}},
    {Name::kResNeXt50, {3, 4, 6, 3}, true, 32, 4},
    {Name::kWideResNet50, {3, 4, 6, 3}, true, 1, 128},
    {Name::kResNet20Cifar, {3, 3, 3, 0}, false, 1, 64, true},
    {Name::kResNet56Cifar, {9, 9, 9, 0}, false, 1, 64, true},
};

// What distinguishes the variants. See fill_in() for the names.
struct ResNetVariant {
  Variant variant;
  double epsilon, momentum;
  int strided;          // the convolution of a bottleneck that has its stride
  bool has_bias;        // of convolutions
  bool has_pad_layers;  // the stem pads in layers of its own
  config::Initializer::Kind initializer;
  int first_stage;  // its number
  const char *block, *conv, *norm, *relu, *shortcut, *shortcut_norm, *drop_path;
  const char *stem_conv, *stem_norm, *stem_relu, *stem_pool, *dense;
};
constexpr ResNetVariant kResNetVariants[] = {
    {Variant::kKeras,
     1.001e-5,
     0.99,
     0,
     true,
     true,
     config::Initializer::Kind::kGlorotUniform,
     1,
     "conv{S}_block{B}_",
     "{P}_conv",
     "{P}_bn",
     "{P}_relu",
     "0_conv",
     "0_bn",
     "drop",
     "conv1_conv",
     "conv1_bn",
     "conv1_relu",
     "pool1_pool",
     "predictions"},
    {Variant::kTorchvision,
     1e-5,
     0.9,
     1,
     false,
     false,
     config::Initializer::Kind::kHeNormal,
     0,
     "layer{S}.{b}.",
     "conv{P}",
     "bn{P}",
     "relu{P}",
     "downsample.0",
     "downsample.1",
     "drop_path",
     "conv1",
     "bn1",
     "relu",
     "maxpool",
     "fc"},
    {Variant::kTransformers,
     1e-5,
     0.9,
     1,
     false,
     false,
     config::Initializer::Kind::kHeNormal,
     0,
     "resnet.encoder.stages.{s}.layers.{b}.",
     "layer.{p}.convolution",
     "layer.{p}.normalization",
     "layer.{p}.activation",
     "shortcut.convolution",
     "shortcut.normalization",
     "drop_path",
     "resnet.embedder.embedder.convolution",
     "resnet.embedder.embedder.normalization",
     "resnet.embedder.embedder.activation",
     "resnet.embedder.pooler",
     "classifier.1"},
};

// timm's names are those of torchvision.
const ResNetVariant& find_resnet_variant(Variant variant) {
  if (variant == Variant::kTimm) variant = Variant::kTorchvision;
  return *std::ranges::find(kResNetVariants, variant, &ResNetVariant::variant);
}

class ResNetBuilder {
 public:
  ResNetBuilder(const ResNetSpec& spec, const config::Backbone& backbone, std::int64_t height)
      : spec_(spec),
        v_(find_resnet_variant(config::find_variant(backbone))),
        rates_(backbone.drop_path.value_or(0),
               std::accumulate(spec.blocks.begin(), spec.blocks.end(), 0) - 1),
        height_(height) {}

  void add_features() {
    stem();
    std::int64_t filters = spec_.is_cifar ? 16 : 64;
    for (std::size_t stage = 0; stage < spec_.blocks.size(); ++stage, filters *= 2) {
      for (int i = 0; i < spec_.blocks[stage]; ++i) {
        block({v_.first_stage + static_cast<int>(stage), i}, filters, i == 0 && stage > 0 ? 2 : 1,
              i == 0 && (stage > 0 || spec_.is_bottleneck));
      }
    }
  }
  void add_top(std::int64_t classes) {
    list_.classify("avg_pool", 0, spec_.is_cifar ? "linear" : v_.dense, classes);
  }
  Network take() { return list_.take(); }

 private:
  void convolution(const std::string& name, std::int64_t filters, std::int64_t size,
                   std::int64_t stride, LayerList::Names inputs = {}, std::int64_t groups = 1) {
    config::ConvLayer conv;
    conv.filters = filters;
    conv.kernel_size = {size, size};
    conv.strides = {stride, stride};
    conv.groups = groups;
    conv.use_bias = v_.has_bias;
    // Networks of basic blocks, which Keras lacks, start as its layers do by default.
    if (spec_.is_bottleneck) conv.kernel_initializer.kind = v_.initializer;
    if (size == 3 && v_.has_pad_layers) conv.padding.kind = config::Padding::Kind::kSame;
    if (size > 1 && !v_.has_pad_layers) conv.padding = symmetric_padding(size);
    list_.add(name, conv, std::move(inputs));
  }
  void normalise(const std::string& name, LayerList::Names inputs = {}) {
    list_.normalise(name, v_.epsilon, v_.momentum, std::move(inputs));
  }
  void relu(const std::string& name) { list_.activate(name, config::Activation::kRelu); }

  void stem();
  void block(Place place, std::int64_t filters, std::int64_t stride, bool has_shortcut);
  void zero_shortcut(const std::string& block, const std::string& input, std::int64_t filters);

  const ResNetSpec& spec_;
  const ResNetVariant& v_;
  DropPathRates rates_;
  LayerList list_;
  std::int64_t height_;  // of the image that a stage gets
};

void ResNetBuilder::stem() {
  if (spec_.is_cifar) {
    convolution(v_.stem_conv, 16, 3, 1);
    normalise(v_.stem_norm);
    return relu(v_.stem_relu);
  }
  if (v_.has_pad_layers) list_.add("conv1_pad", config::ZeroPadLayer{{3, 3, 3, 3}});
  convolution(v_.stem_conv, 64, 7, 2);
  normalise(v_.stem_norm);
  relu(v_.stem_relu);
  if (v_.has_pad_layers) list_.add("pool1_pad", config::ZeroPadLayer{{1, 1, 1, 1}});
  const config::Padding padding = v_.has_pad_layers ? config::Padding{} : symmetric_padding(3);
  list_.add(v_.stem_pool, config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, padding});
}

// Takes every second pixel, and pads the channels with zeros as the columns of an image with one
// channel, whose rows are the pixels.
void ResNetBuilder::zero_shortcut(const std::string& block, const std::string& input,
                                  std::int64_t filters) {
  height_ = (height_ + 1) / 2;
  const std::int64_t half = filters / 2, zeros = filters / 4;
  list_.add(block + "shortcut.pixels", config::MaxPoolLayer{{1, 1}, config::Pair{2, 2}, {}},
            {input});
  list_.add(block + "shortcut.rows", config::ReshapeLayer{{-1, half, 1}});
  list_.add(block + "shortcut.zeros", config::ZeroPadLayer{{0, 0, zeros, zeros}});
  list_.add(block + "shortcut", config::ReshapeLayer{{height_, -1, filters}});
}

// Keras sorts its layers by depth, so that the shortcut of a bottleneck stands between the layers
// of the third convolution.
void ResNetBuilder::block(Place place, std::int64_t filters, std::int64_t stride,
                          bool has_shortcut) {
  list_.begin_group();
  const std::string block = fill_in(v_.block, place), input = list_.last();
  const std::int64_t outputs = spec_.is_bottleneck ? 4 * filters : filters;
  const std::string shortcut = block + v_.shortcut, shortcut_norm = block + v_.shortcut_norm;
  const auto name = [&](const char* layer) { return block + fill_in(layer, place); };
  if (spec_.is_bottleneck) {
    const std::int64_t width = filters * spec_.group_width / 64 * spec_.groups;
    convolution(name(v_.conv), width, 1, v_.strided == 0 ? stride : 1);
    normalise(name(v_.norm));
    relu(name(v_.relu));
    ++place.part;
    convolution(name(v_.conv), width, 3, v_.strided == 1 ? stride : 1, {}, spec_.groups);
  } else {
    convolution(name(v_.conv), filters, 3, stride);
  }
  normalise(name(v_.norm));
  relu(name(v_.relu));
  const std::string before = list_.last();
  ++place.part;
  if (has_shortcut && spec_.is_bottleneck) convolution(shortcut, outputs, 1, stride, {input});
  convolution(name(v_.conv), outputs, spec_.is_bottleneck ? 1 : 3, 1, {before});
  if (has_shortcut && spec_.is_bottleneck) normalise(shortcut_norm, {shortcut});
  normalise(name(v_.norm), {name(v_.conv)});
  list_.drop_path(block + v_.drop_path, rates_.next());
  const std::string main = list_.last();
  if (has_shortcut && spec_.is_cifar) {
    zero_shortcut(block, input, filters);
  } else if (has_shortcut && !spec_.is_bottleneck) {
    convolution(shortcut, outputs, 1, stride, {input});
    normalise(shortcut_norm);
  }
  const std::string other = !has_shortcut ? input : spec_.is_cifar ? list_.last() : shortcut_norm;
  list_.add(block + "add", config::AddLayer{},
            spec_.is_bottleneck ? LayerList::Names{other, main} : LayerList::Names{main, other});
  relu(block + "out");
}

}  // namespace

Network resnet(const config::Backbone& backbone, Image image, std::int64_t classes) {
  const auto* spec = std::ranges::find(kResNets, backbone.name, &ResNetSpec::name);
  if (spec == std::end(kResNets)) return {};
  ResNetBuilder builder(*spec, backbone, image.height);
  builder.add_features();
  if (backbone.include_top) builder.add_top(classes);
  return builder.take();
}

}  // namespace trainer::model
