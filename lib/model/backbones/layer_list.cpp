#include "model/backbones/layer_list.h"

#include <algorithm>
#include <cctype>

namespace trainer::model {

std::string fill_in(std::string_view pattern, const Place& place) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      text += pattern[i];
      continue;
    }
    const char mark = pattern[i + 1];
    const char kind = static_cast<char>(std::tolower(mark));
    const int number = kind == 's'   ? place.stage
                       : kind == 'b' ? place.block
                       : kind == 'n' ? place.number
                                     : place.part;
    text += mark == 'a' ? std::string(1, static_cast<char>('a' + place.block))
                        : std::to_string(number + (mark == kind ? 0 : 1));
    i += 2;
  }
  return text;
}

config::Padding symmetric_padding(std::int64_t size) {
  const std::int64_t pad = size / 2;
  return {config::Padding::Kind::kExplicit, {pad, pad, pad, pad}};
}

void LayerList::convolution(const std::string& name, const ConvolutionSpec& spec, Names inputs) {
  config::ConvLayer conv;
  conv.filters = spec.filters;
  conv.kernel_size = {spec.size, spec.size};
  conv.strides = {spec.stride, spec.stride};
  conv.padding = spec.padding;
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

void LayerList::normalise(const std::string& name, double epsilon, double momentum, Names inputs) {
  config::BatchNormLayer norm;
  norm.epsilon = epsilon;
  norm.momentum = momentum;
  add(name, norm, std::move(inputs));
}

void LayerList::classify(const std::string& pool, double dropout, const std::string& dense,
                         std::int64_t classes) {
  begin_head();
  add(pool, config::GlobalAveragePoolLayer{});
  if (dropout > 0) add("top_dropout", config::DropoutLayer{dropout});
  config::DenseLayer logits;
  logits.units = classes;
  add(dense, logits);
}

std::int64_t divisible_by_eight(double channels) {
  constexpr std::int64_t kDivisor = 8;
  const auto half = static_cast<double>(kDivisor) / 2;
  const std::int64_t near = static_cast<std::int64_t>(channels + half) / kDivisor * kDivisor;
  const std::int64_t result = std::max(kDivisor, near);
  return static_cast<double>(result) < 0.9 * channels ? result + kDivisor : result;
}

}  // namespace trainer::model
