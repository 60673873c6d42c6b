// Xception (Chollet, arXiv:1610.02357) of keras.applications and of timm, whose legacy_xception has
// the padding and epsilon of PyTorch.
#include <array>

#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using config::Activation;

struct XceptionBlock {
  int number;                           // in Keras; timm counts from one less
  std::array<std::int64_t, 3> filters;  // of its separable convolutions; 0 for none
  bool has_shortcut;                    // a convolution with a stride, beside a pooling
};
constexpr std::int64_t kXceptionWidth = 728;
constexpr XceptionBlock kXceptionBlocks[] = {
    {2, {128, 128}, true},
    {3, {256, 256}, true},
    {4, {kXceptionWidth, kXceptionWidth}, true},
    {5, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {6, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {7, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {8, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {9, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {10, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {11, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {12, {kXceptionWidth, kXceptionWidth, kXceptionWidth}, false},
    {13, {kXceptionWidth, 1024}, true},
};

class XceptionBuilder {
 public:
  explicit XceptionBuilder(bool is_keras) : is_keras_(is_keras) {}

  void add_features() {
    for (int i = 1; i <= 2; ++i) {
      ConvolutionSpec conv{i == 1 ? 32 : 64, 3, i == 1 ? 2 : 1, {}};
      const std::string name = is_keras_ ? concat("block1_conv", i) : concat("conv", i);
      list_.convolution(name, conv);
      normalise(is_keras_ ? name + "_bn" : concat("bn", i));
      relu(is_keras_ ? name + "_act" : concat("act", i));
    }
    for (const XceptionBlock& spec : kXceptionBlocks) block(spec);
    list_.begin_group();
    for (int i = 1; i <= 2; ++i) {
      const std::string name = is_keras_ ? concat("block14_sepconv", i) : concat("conv", i + 2);
      separable(name, i == 1 ? 1536 : 2048);
      normalise(is_keras_ ? name + "_bn" : concat("bn", i + 2));
      relu(is_keras_ ? name + "_act" : concat("act", i + 2));
    }
  }
  void add_top(std::int64_t classes) {
    list_.classify("avg_pool", 0, is_keras_ ? "predictions" : "fc", classes);
  }
  Network take() { return list_.take(); }

 private:
  void normalise(const std::string& name, LayerList::Names inputs = {}) {
    list_.normalise(name, is_keras_ ? 1e-3 : 1e-5, is_keras_ ? 0.99 : 0.9, std::move(inputs));
  }
  void relu(const std::string& name) { list_.activate(name, Activation::kRelu); }
  // timm's is two layers.
  void separable(const std::string& name, std::int64_t filters) {
    const config::Padding same{config::Padding::Kind::kSame, {}};
    if (is_keras_) {
      config::SeparableConvLayer conv;
      conv.filters = filters;
      conv.padding = same;
      conv.use_bias = false;
      return list_.add(name, conv);
    }
    config::DepthwiseConvLayer depthwise;
    depthwise.padding = same;
    depthwise.use_bias = false;
    list_.add(name + ".conv1", depthwise);
    list_.convolution(name + ".pointwise", {filters});
  }
  void block(const XceptionBlock& spec);

  bool is_keras_;
  int shortcuts_ = 0;
  LayerList list_;
};

void XceptionBuilder::block(const XceptionBlock& spec) {
  list_.begin_group();
  const std::string input = list_.last();
  const std::string name =
      is_keras_ ? concat("block", spec.number, '_') : concat("block", spec.number - 1, '.');
  int module = 0;  // timm counts the layers
  const auto name_layer = [&](int conv, const char* suffix) {
    return is_keras_ ? concat(name, "sepconv", conv, suffix) : concat(name, "rep.", module++);
  };
  int conv = 0;
  for (const std::int64_t filters : spec.filters) {
    if (filters == 0) break;
    ++conv;
    // The first block follows an activation.
    if (spec.number > 2 || conv > 1) relu(name_layer(conv, "_act"));
    separable(name_layer(conv, ""), filters);
    normalise(name_layer(conv, "_bn"));
  }
  if (!spec.has_shortcut) return list_.add(name + "add", config::AddLayer{}, {list_.last(), input});
  // Keras sorts its layers by depth, and numbers those of the shortcuts.
  const std::string number = shortcuts_ == 0 ? "" : concat('_', shortcuts_);
  ++shortcuts_;
  const std::string shortcut = is_keras_ ? "conv2d" + number : name + "skip";
  const std::string shortcut_norm = is_keras_ ? "batch_normalization" + number : name + "skipbn";
  const std::string main = list_.last(), pool = is_keras_ ? name + "pool" : name_layer(0, "");
  list_.convolution(shortcut, {spec.filters[1], 1, 2}, {input});
  const config::Padding padding =
      is_keras_ ? config::Padding{config::Padding::Kind::kSame, {}} : symmetric_padding(3);
  list_.add(pool, config::MaxPoolLayer{{3, 3}, config::Pair{2, 2}, padding}, {main});
  normalise(shortcut_norm, {shortcut});
  list_.add(name + "add", config::AddLayer{}, {pool, shortcut_norm});
}

}  // namespace

Network xception(const config::Backbone& backbone, Image, std::int64_t classes) {
  if (backbone.name != config::Backbone::Name::kXception) return {};
  XceptionBuilder builder(config::find_variant(backbone) == config::Backbone::Variant::kKeras);
  builder.add_features();
  if (backbone.include_top) builder.add_top(classes);
  return builder.take();
}

}  // namespace trainer::model
