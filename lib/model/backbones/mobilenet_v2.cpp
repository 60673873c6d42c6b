// keras.applications.MobileNetV2 (Sandler et al., arXiv:1801.04381).
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

constexpr int kMobileNetV2Blocks = 17;

class MobileNetV2Builder {
 public:
  MobileNetV2Builder(Image image, double alpha, double drop_path)
      : list_(image), alpha_(alpha), rates_(drop_path, kMobileNetV2Blocks) {}

  std::vector<config::Layer> build() && {
    struct Stage {
      std::int64_t filters;
      int blocks, stride;
    };
    constexpr Stage kStages[] = {{24, 2, 2}, {32, 3, 2},  {64, 4, 2},
                                 {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
    convolution("Conv1", "bn_Conv1", "Conv1_relu", divisible_by_eight(32 * alpha_), 3, 2);
    list_.halve();
    inverted_residual(0, 16, 1, 1);
    int block = 0;
    for (const Stage& stage : kStages) {
      for (int i = 0; i < stage.blocks; ++i) {
        inverted_residual(++block, stage.filters, i == 0 ? stage.stride : 1, 6);
      }
    }
    convolution("Conv_1", "Conv_1_bn", "out_relu",
                alpha_ > 1 ? divisible_by_eight(1280 * alpha_) : 1280, 1, 1);
    return list_.take();
  }

 private:
  void normalise(const std::string& name) { list_.normalise(name, 1e-3, 0.999); }

  // An empty `relu` leaves the output linear.
  void convolution(const std::string& name, const std::string& norm, const std::string& relu,
                   std::int64_t filters, std::int64_t size, std::int64_t stride) {
    channels_ = filters;
    list_.convolution(name, {filters, size, stride});
    normalise(norm);
    if (!relu.empty()) list_.add(relu, config::ReluLayer{6.0});
  }

  void depthwise(const std::string& prefix, int stride) {
    list_.depthwise(prefix + "depthwise", prefix + "pad", 3, stride);
    normalise(prefix + "depthwise_BN");
    list_.add(prefix + "depthwise_relu", config::ReluLayer{6.0});
  }

  void inverted_residual(int block, std::int64_t filters, int stride, std::int64_t expansion) {
    const std::string prefix = block == 0 ? "expanded_conv_" : concat("block_", block, '_');
    const std::string input = list_.last();
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
                divisible_by_eight(static_cast<double>(scaled)), 1, 1);
    if (stride == 1 && input_channels == channels_) {
      list_.drop_path(prefix + "drop", drop_path);
      list_.add(prefix + "add", config::AddLayer{}, {input, list_.last()});
    }
  }

  LayerList list_;
  double alpha_;
  DropPathRates rates_;
  std::int64_t channels_ = 3;
};

}  // namespace

std::vector<config::Layer> mobilenet_v2_features(Image image, double alpha, double drop_path) {
  return MobileNetV2Builder(image, alpha, drop_path).build();
}

}  // namespace trainer::model
