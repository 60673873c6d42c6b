// MobileNetV4's convolutional networks (Qin et al., arXiv:2404.10518) of timm. A universal inverted
// bottleneck may have a depthwise convolution before the expansion, after it, or both.
#include <algorithm>
#include <span>

#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Name = config::Backbone::Name;
using config::Activation;

enum class UniversalKind { kPlain, kFused, kUniversal };

// Blocks of one kind. `first` and `size` are those of the depthwise convolutions before and after
// the expansion, 0 for none; of the other kinds, `size` is that of the convolution.
struct UniversalSpec {
  int stage;
  UniversalKind kind;
  std::int64_t first, size, stride, expansion, filters;
  int count = 1;
};
constexpr auto kPlain = UniversalKind::kPlain;
constexpr auto kUniversal = UniversalKind::kUniversal;
constexpr UniversalSpec kConvSmall[] = {
    {0, kPlain, 0, 3, 2, 1, 32},      {0, kPlain, 0, 1, 1, 1, 32},
    {1, kPlain, 0, 3, 2, 1, 96},      {1, kPlain, 0, 1, 1, 1, 64},
    {2, kUniversal, 5, 5, 2, 3, 96},  {2, kUniversal, 0, 3, 1, 2, 96, 4},
    {2, kUniversal, 3, 0, 1, 4, 96},  {3, kUniversal, 3, 3, 2, 6, 128},
    {3, kUniversal, 5, 5, 1, 4, 128}, {3, kUniversal, 0, 5, 1, 4, 128},
    {3, kUniversal, 0, 5, 1, 3, 128}, {3, kUniversal, 0, 3, 1, 4, 128, 2},
    {4, kPlain, 0, 1, 1, 1, 960}};
constexpr UniversalSpec kConvMedium[] = {{0, UniversalKind::kFused, 0, 3, 2, 4, 48},
                                         {1, kUniversal, 3, 5, 2, 4, 80},
                                         {1, kUniversal, 3, 3, 1, 2, 80},
                                         {2, kUniversal, 3, 5, 2, 6, 160},
                                         {2, kUniversal, 3, 3, 1, 4, 160, 2},
                                         {2, kUniversal, 3, 5, 1, 4, 160},
                                         {2, kUniversal, 3, 3, 1, 4, 160},
                                         {2, kUniversal, 3, 0, 1, 4, 160},
                                         {2, kUniversal, 0, 0, 1, 2, 160},
                                         {2, kUniversal, 3, 0, 1, 4, 160},
                                         {3, kUniversal, 5, 5, 2, 6, 256},
                                         {3, kUniversal, 5, 5, 1, 4, 256},
                                         {3, kUniversal, 3, 5, 1, 4, 256, 2},
                                         {3, kUniversal, 0, 0, 1, 4, 256},
                                         {3, kUniversal, 3, 0, 1, 4, 256},
                                         {3, kUniversal, 3, 5, 1, 2, 256},
                                         {3, kUniversal, 5, 5, 1, 4, 256},
                                         {3, kUniversal, 0, 0, 1, 4, 256, 2},
                                         {3, kUniversal, 5, 0, 1, 2, 256},
                                         {4, kPlain, 0, 1, 1, 1, 960}};

class MobileNetV4Builder {
 public:
  MobileNetV4Builder(std::span<const UniversalSpec> specs, double drop_path)
      : specs_(specs), rates_(drop_path, count_blocks()) {}

  void add_features() {
    part("conv_stem", "bn1", 32, 3, 2);
    int stage = -1, block = 0;
    for (const UniversalSpec& spec : specs_) {
      if (spec.stage != stage) block = 0;
      stage = spec.stage;
      for (int i = 0; i < spec.count; ++i, ++block) {
        add_block(spec, fill_in("blocks.{s}.{b}.", {stage, block}), i == 0 ? spec.stride : 1);
      }
    }
  }
  void add_top(std::int64_t classes) {
    list_.begin_head();
    list_.add("global_pool", config::GlobalAveragePoolLayer{true});
    part("conv_head", "norm_head", 1280, 1, 1);
    list_.add("flatten", config::FlattenLayer{});
    config::DenseLayer logits;
    logits.units = classes;
    list_.add("classifier", logits);
  }
  Network take() { return list_.take(); }

 private:
  int count_blocks() const {
    int count = 0;
    for (const UniversalSpec& spec : specs_) count += spec.count;
    return count;
  }
  // Adds a convolution, its norm and ReLU.
  void part(const std::string& conv, const std::string& norm, std::int64_t filters,
            std::int64_t size, std::int64_t stride, bool has_relu = true) {
    list_.convolution(conv, {filters, size, stride, symmetric_padding(size)});
    finish(norm, has_relu);
    channels_ = filters;
  }
  void depthwise(const std::string& name, std::int64_t size, std::int64_t stride, bool has_relu) {
    config::DepthwiseConvLayer conv;
    conv.kernel_size = {size, size};
    conv.strides = {stride, stride};
    conv.padding = symmetric_padding(size);
    conv.use_bias = false;
    list_.add(name + ".conv", conv);
    finish(name + ".bn", has_relu);
  }
  void finish(const std::string& norm, bool has_relu) {
    list_.normalise(norm, 1e-5, 0.9);
    if (has_relu) list_.activate(norm + ".act", Activation::kRelu);
  }
  void add_block(const UniversalSpec& spec, const std::string& name, std::int64_t stride);

  std::span<const UniversalSpec> specs_;
  DropPathRates rates_;
  LayerList list_;
  std::int64_t channels_ = 0;
};

void MobileNetV4Builder::add_block(const UniversalSpec& spec, const std::string& name,
                                   std::int64_t stride) {
  list_.begin_group();
  const double rate = rates_.next();
  const std::string input = list_.last();
  const std::int64_t inputs = channels_, expanded = inputs * spec.expansion;
  if (spec.kind == UniversalKind::kPlain) {
    return part(name + "conv", name + "bn1", spec.filters, spec.size, stride);
  }
  if (spec.kind == UniversalKind::kFused) {
    part(name + "conv_exp", name + "bn1", expanded, spec.size, stride);
    part(name + "conv_pwl", name + "bn2", spec.filters, 1, 1, false);
  } else {
    if (spec.first > 0) depthwise(name + "dw_start", spec.first, spec.size > 0 ? 1 : stride, false);
    part(name + "pw_exp.conv", name + "pw_exp.bn", expanded, 1, 1);
    if (spec.size > 0) depthwise(name + "dw_mid", spec.size, stride, true);
    part(name + "pw_proj.conv", name + "pw_proj.bn", spec.filters, 1, 1, false);
  }
  if (stride != 1 || inputs != spec.filters) return;
  list_.drop_path(name + "drop_path", rate);
  list_.add(name + "add", config::AddLayer{}, {list_.last(), input});
}

}  // namespace

Network mobilenet_v4(const config::Backbone& backbone, Image, std::int64_t classes) {
  const bool is_small = backbone.name == Name::kMobileNetV4Small;
  if (!is_small && backbone.name != Name::kMobileNetV4Medium) return {};
  MobileNetV4Builder builder(is_small ? std::span<const UniversalSpec>(kConvSmall) : kConvMedium,
                             backbone.drop_path.value_or(0));
  builder.add_features();
  if (backbone.include_top) builder.add_top(classes);
  return builder.take();
}

}  // namespace trainer::model
