// keras.applications.MobileNetV2 (Sandler et al., arXiv:1801.04381).
#include <algorithm>

#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr std::int64_t kDivisor = 8;
constexpr int kMobileNetV2Blocks = 17;

// The nearest multiple of eight, at least eight, and no less than nine tenths of `channels`.
std::int64_t divisible(double channels) {
  const auto half = static_cast<double>(kDivisor) / 2;
  const std::int64_t near = static_cast<std::int64_t>(channels + half) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, near);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

class MobileNetV2Builder {
 public:
  MobileNetV2Builder(Image image, double alpha, double drop_path)
      : image_(image), alpha_(alpha), rates_(drop_path, kMobileNetV2Blocks) {}

  std::vector<config::Layer> build() && {
    struct Stage {
      std::int64_t filters;
      int blocks, stride;
    };
    constexpr Stage kStages[] = {{24, 2, 2}, {32, 3, 2},  {64, 4, 2},
                                 {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
    convolution("Conv1", "bn_Conv1", "Conv1_relu", divisible(32 * alpha_), 3, 2);
    halve_same();
    inverted_residual(0, 16, 1, 1);
    int block = 0;
    for (const Stage& stage : kStages) {
      for (int i = 0; i < stage.blocks; ++i) {
        inverted_residual(++block, stage.filters, i == 0 ? stage.stride : 1, 6);
      }
    }
    convolution("Conv_1", "Conv_1_bn", "out_relu", alpha_ > 1 ? divisible(1280 * alpha_) : 1280, 1,
                1);
    return std::move(layers_);
  }

 private:
  void add(const std::string& name, config::LayerKind kind, std::vector<std::string> inputs = {}) {
    layers_.push_back(named(name, std::move(kind), std::move(inputs)));
  }

  void halve_same() {
    image_.height = (image_.height + 1) / 2;
    image_.width = (image_.width + 1) / 2;
  }

  void normalise(const std::string& name) {
    config::BatchNormLayer norm;
    norm.epsilon = 1e-3;
    norm.momentum = 0.999;
    add(name, norm);
  }

  // An empty `relu` leaves the output linear.
  void convolution(const std::string& name, const std::string& norm, const std::string& relu,
                   std::int64_t filters, std::int64_t size, std::int64_t stride) {
    config::ConvLayer conv;
    conv.filters = channels_ = filters;
    conv.kernel_size = {size, size};
    conv.strides = {stride, stride};
    conv.padding.kind = config::Padding::Kind::kSame;
    conv.use_bias = false;
    add(name, conv);
    normalise(norm);
    if (!relu.empty()) add(relu, config::ReluLayer{6.0});
  }

  // Keras pads before a stride of two so that odd and even images give ceil(size / 2).
  void depthwise(const std::string& prefix, int stride) {
    config::DepthwiseConvLayer conv;
    conv.use_bias = false;
    conv.strides = {stride, stride};
    if (stride == 2) {
      config::ZeroPadLayer pad;
      pad.padding = {image_.height % 2, 1, image_.width % 2, 1};
      add(prefix + "pad", pad);
      halve_same();
    } else {
      conv.padding.kind = config::Padding::Kind::kSame;
    }
    add(prefix + "depthwise", conv);
    normalise(prefix + "depthwise_BN");
    add(prefix + "depthwise_relu", config::ReluLayer{6.0});
  }

  void inverted_residual(int block, std::int64_t filters, int stride, std::int64_t expansion) {
    const std::string prefix = block == 0 ? "expanded_conv_" : concat("block_", block, '_');
    const std::string input = layers_.back().name;
    const std::int64_t input_channels = channels_;
    const double drop_path = rates_.next();
    if (block > 0) {
      convolution(prefix + "expand", prefix + "expand_BN", prefix + "expand_relu",
                  expansion * input_channels, 1, 1);
    }
    depthwise(prefix, stride);
    // Keras rounds down once before it makes the number divisible.
    const auto scaled = static_cast<std::int64_t>(static_cast<double>(filters) * alpha_);
    convolution(prefix + "project", prefix + "project_BN", "",
                divisible(static_cast<double>(scaled)), 1, 1);
    if (stride == 1 && input_channels == channels_) {
      if (drop_path > 0) add(prefix + "drop", config::DropPathLayer{drop_path});
      add(prefix + "add", config::AddLayer{}, {input, layers_.back().name});
    }
  }

  Image image_;
  double alpha_;
  DropPathRates rates_;
  std::int64_t channels_ = 3;
  std::vector<config::Layer> layers_;
};

}  // namespace

std::vector<config::Layer> mobilenet_v2_features(Image image, double alpha, double drop_path) {
  return MobileNetV2Builder(image, alpha, drop_path).build();
}

}  // namespace trainer::model
