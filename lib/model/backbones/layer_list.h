// What the lists of backbones have in common. Internal to model.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/backbones/backbone.h"

namespace trainer::model {

// A convolution without a bias unless it is asked for.
struct ConvolutionSpec {
  std::int64_t filters = 0, size = 1, stride = 1;
  config::Padding::Kind padding = config::Padding::Kind::kSame;
  bool bias = false;
  config::Activation activation = config::Activation::kLinear;
};

// Layers in the order in which they are added; each takes the one before unless inputs are named.
class LayerList {
 public:
  using Names = std::vector<std::string>;

  void add(const std::string& name, config::LayerKind kind, Names inputs = {}) {
    layers_.push_back(named(name, std::move(kind), std::move(inputs)));
  }
  void convolution(const std::string& name, const ConvolutionSpec& spec, Names inputs = {});
  // Along each channel, with the padding that the strides need when they are 2.
  void depthwise(const std::string& name, const std::string& pad, std::int64_t size,
                 std::int64_t stride);
  // Keras's padding before a convolution with a stride of 2, so that odd and even images give
  // ceil(size / 2).
  void pad_for_stride(const std::string& name, std::int64_t size);
  void normalise(const std::string& name, double epsilon, double momentum = 0.99,
                 Names inputs = {});
  void activate(const std::string& name, config::Activation function) {
    add(name, config::ActivationLayer{function, {}});
  }
  // After a convolution with padding "same" and a stride of 2.
  void halve() {
    image_.height = (image_.height + 1) / 2;
    image_.width = (image_.width + 1) / 2;
  }

  explicit LayerList(Image image = {}) : image_(image) {}
  const std::string& last() const { return layers_.back().name; }
  std::vector<config::Layer> take() { return std::move(layers_); }

 private:
  Image image_;  // of the last layer, as far as halve() was told
  std::vector<config::Layer> layers_;
};

// The nearest multiple of eight, at least eight, and no less than nine tenths of `channels`.
std::int64_t divisible_by_eight(double channels);

}  // namespace trainer::model
