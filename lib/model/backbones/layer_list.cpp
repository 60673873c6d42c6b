#include "model/backbones/layer_list.h"

#include <algorithm>

namespace trainer::model {

void LayerList::convolution(const std::string& name, const ConvolutionSpec& spec, Names inputs) {
  config::ConvLayer conv;
  conv.filters = spec.filters;
  conv.kernel_size = {spec.size, spec.size};
  conv.strides = {spec.stride, spec.stride};
  conv.padding.kind = spec.padding;
  conv.use_bias = spec.bias;
  conv.activation = spec.activation;
  add(name, conv, std::move(inputs));
}

void LayerList::pad_for_stride(const std::string& name, std::int64_t size) {
  const std::int64_t after = size / 2;
  config::ZeroPadLayer pad;
  pad.padding = {after - (1 - image_.height % 2), after, after - (1 - image_.width % 2), after};
  add(name, pad);
  halve();
}

void LayerList::depthwise(const std::string& name, const std::string& pad, std::int64_t size,
                          std::int64_t stride) {
  config::DepthwiseConvLayer conv;
  conv.kernel_size = {size, size};
  conv.strides = {stride, stride};
  conv.use_bias = false;
  if (stride == 2) {
    pad_for_stride(pad, size);
  } else {
    conv.padding.kind = config::Padding::Kind::kSame;
  }
  add(name, conv);
}

void LayerList::normalise(const std::string& name, double epsilon, double momentum, Names inputs) {
  config::BatchNormLayer norm;
  norm.epsilon = epsilon;
  norm.momentum = momentum;
  add(name, norm, std::move(inputs));
}

std::int64_t divisible_by_eight(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto half = static_cast<double>(kDivisor) / 2;
  const std::int64_t near = static_cast<std::int64_t>(channels + half) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, near);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

}  // namespace trainer::model
