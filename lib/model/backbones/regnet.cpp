// RegNetY (Radosavovic et al., arXiv:2003.13678) of torchvision, timm and Keras 2's
// keras.applications: bottlenecks of one width with grouped convolutions and squeeze and
// excitation.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using Variant = config::Backbone::Variant;

struct RegNetSpec {
  Name name;
  const char* in_keras;
  std::array<int, 4> blocks;  // of each stage
  std::array<std::int64_t, 4> channels;
  std::int64_t group_width;
  // Those of torchvision where they differ, since it rounds to groups in another way.
  std::array<std::int64_t, 4> in_torchvision{};
};
constexpr RegNetSpec kRegNets[] = {
    {Name::kRegNetY400MF, "regnety004", {1, 3, 6, 6}, {48, 104, 208, 440}, 8},
    {Name::kRegNetY800MF, "regnety008", {1, 3, 8, 2}, {64, 128, 320, 768}, 16, {64, 144, 320, 784}},
    {Name::kRegNetY1600MF, "regnety016", {2, 6, 17, 2}, {48, 120, 336, 888}, 24},
    {Name::kRegNetY3200MF, "regnety032", {2, 5, 13, 1}, {72, 216, 576, 1512}, 24},
    {Name::kRegNetY8GF,
     "regnety080",
     {2, 4, 10, 1},
     {168, 448, 896, 2016},
     56,
     {224, 448, 896, 2016}},
};

// What distinguishes the variants. See fill_in() for the names; those of Keras follow the name of
// the network.
struct RegNetVariant {
  Variant variant;
  bool pads_same;  // TensorFlow's padding in place of PyTorch's
  const char *stem, *stem_norm, *block;
  std::array<const char*, 3> convs, norms;
  const char *reduce, *excite, *shortcut, *shortcut_norm, *logits;
};
constexpr RegNetVariant kRegNetVariants[] = {
    {Variant::kTorchvision,
     false,
     "stem.0",
     "stem.1",
     "trunk_output.block{S}.block{S}-{b}.",
     {"f.a.0", "f.b.0", "f.c.0"},
     {"f.a.1", "f.b.1", "f.c.1"},
     "f.se.fc1",
     "f.se.fc2",
     "proj.0",
     "proj.1",
     "fc"},
    {Variant::kTimm,
     false,
     "stem.conv",
     "stem.bn",
     "s{S}.b{B}.",
     {"conv1.conv", "conv2.conv", "conv3.conv"},
     {"conv1.bn", "conv2.bn", "conv3.bn"},
     "se.fc1",
     "se.fc2",
     "downsample.conv",
     "downsample.bn",
     "head.fc"},
    {Variant::kKeras,
     true,
     "_stem_conv",
     "_stem_bn",
     "_Stage_{s}_YBlock_{b}_",
     {"conv_1x1_1", "conv_3x3", "conv_1x1_2"},
     {"conv_1x1_1_bn", "conv_3x3_bn", "conv_1x1_2_bn"},
     "squeeze_and_excite_squeeze",
     "squeeze_and_excite_excite",
     "skip_1x1",
     "skip_bn",
     "1head_dense"},
};

class RegNetBuilder {
 public:
  RegNetBuilder(const RegNetSpec& spec, const config::Backbone& backbone)
      : spec_(spec),
        v_(*std::ranges::find(kRegNetVariants, config::find_variant(backbone),
                              &RegNetVariant::variant)),
        start_(v_.variant == Variant::kKeras ? spec.in_keras : ""),
        rates_(backbone.drop_path.value_or(0),
               std::accumulate(spec.blocks.begin(), spec.blocks.end(), 0) - 1) {}

  void add_features() {
    std::int64_t inputs = 32;
    convolution(start_ + v_.stem, inputs, 3, 2);
    normalise(start_ + v_.stem_norm);
    list_.activate("stem_relu", config::Activation::kRelu);
    for (std::size_t stage = 0; stage < spec_.blocks.size(); ++stage) {
      const bool is_own = v_.variant == Variant::kTorchvision && spec_.in_torchvision[0] > 0;
      const std::int64_t channels = (is_own ? spec_.in_torchvision : spec_.channels)[stage];
      for (int i = 0; i < spec_.blocks[stage]; ++i) {
        block({static_cast<int>(stage), i}, i == 0 ? inputs : channels, channels);
      }
      inputs = channels;
    }
  }
  void add_top(std::int64_t classes) { list_.classify("avg_pool", 0, v_.logits, classes); }
  Network take() { return list_.take(); }

 private:
  void convolution(const std::string& name, std::int64_t filters, std::int64_t size,
                   std::int64_t stride, LayerList::Names inputs = {}, std::int64_t groups = 1) {
    config::ConvLayer conv;
    conv.filters = filters;
    conv.kernel_size = {size, size};
    conv.strides = {stride, stride};
    conv.groups = groups;
    conv.use_bias = false;
    conv.kernel_initializer.kind = config::Initializer::Kind::kHeNormal;
    if (size > 1) conv.padding = symmetric_padding(size);
    if (v_.pads_same) conv.padding = {config::Padding::Kind::kSame, {}};
    list_.add(name, conv, std::move(inputs));
  }
  void normalise(const std::string& name) { list_.normalise(name, 1e-5, 0.9); }
  void squeeze_and_excite(const std::string& block, std::int64_t inputs, std::int64_t channels);
  void block(Place place, std::int64_t inputs, std::int64_t channels);

  const RegNetSpec& spec_;
  const RegNetVariant& v_;
  std::string start_;
  DropPathRates rates_;
  LayerList list_;
};

// Multiplies the channels by factors computed from their means through a quarter of the block's
// inputs.
void RegNetBuilder::squeeze_and_excite(const std::string& block, std::int64_t inputs,
                                       std::int64_t channels) {
  const std::string features = list_.last();
  ConvolutionSpec reduce{std::lround(0.25 * static_cast<double>(inputs))}, excite{channels};
  reduce.bias = excite.bias = true;
  reduce.activation = config::Activation::kRelu;
  excite.activation = config::Activation::kSigmoid;
  list_.add(block + "se_squeeze", config::GlobalAveragePoolLayer{true});
  list_.convolution(block + v_.reduce, reduce);
  list_.convolution(block + v_.excite, excite);
  list_.add(block + "se_multiply", config::MultiplyLayer{}, {features, list_.last()});
}

void RegNetBuilder::block(Place place, std::int64_t inputs, std::int64_t channels) {
  list_.begin_group();
  const std::string name = start_ + fill_in(v_.block, place), input = list_.last();
  const std::int64_t stride = place.block == 0 ? 2 : 1;
  for (int part = 0; part < 3; ++part) {
    const bool is_grouped = part == 1;
    convolution(name + v_.convs[part], channels, is_grouped ? 3 : 1, is_grouped ? stride : 1, {},
                is_grouped ? channels / spec_.group_width : 1);
    normalise(name + v_.norms[part]);
    if (part == 2) break;
    list_.activate(concat(name, "relu", part + 1), config::Activation::kRelu);
    if (is_grouped) squeeze_and_excite(name, inputs, channels);
  }
  list_.drop_path(name + "drop_path", rates_.next());
  const std::string main = list_.last();
  if (stride == 2) {
    convolution(name + v_.shortcut, channels, 1, stride, {input});
    normalise(name + v_.shortcut_norm);
  }
  list_.add(name + "add", config::AddLayer{}, {main, stride == 2 ? list_.last() : input});
  list_.activate(name + "out", config::Activation::kRelu);
}

}  // namespace

Network regnet(const config::Backbone& backbone, Image, std::int64_t classes) {
  const auto* spec = std::ranges::find(kRegNets, backbone.name, &RegNetSpec::name);
  if (spec == std::end(kRegNets)) return {};
  RegNetBuilder builder(*spec, backbone);
  builder.add_features();
  if (backbone.include_top) builder.add_top(classes);
  return builder.take();
}

}  // namespace trainer::model
