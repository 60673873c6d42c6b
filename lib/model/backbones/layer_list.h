// Builds the layer lists of backbones. Internal to model.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/backbones/backbone.h"

namespace trainer::model {

// A convolution, by default without a bias.
struct ConvolutionSpec {
  std::int64_t filters = 0, size = 1, stride = 1;
  config::Padding padding{config::Padding::Kind::kSame, {}};
  bool bias = false;
  config::Activation activation = config::Activation::kLinear;
};
// PyTorch's padding of a window of odd size, the same on all sides.
config::Padding symmetric_padding(std::int64_t size);

// Where a layer stands, counted from 0.
struct Place {
  int stage = 0;
  int block = 0;   // within its stage
  int number = 0;  // counts the blocks of all stages
  int part = 0;    // within its block
};
// Returns `pattern` with {s}, {b}, {n} and {p} replaced by the stage, block, number and part; by
// these counted from 1 where the letter is upper case; and {a} by the block as a letter.
std::string fill_in(std::string_view pattern, const Place& place);

// The rates of stochastic depth of a network's blocks, in order: rate * block / intervals.
// EfficientNet and MobileNet divide by the number of blocks, as Keras and timm do; the others
// divide by one less, so that the last block has the whole rate.
class DropPathRates {
 public:
  DropPathRates(double rate, int intervals) : rate_(rate), intervals_(intervals) {}
  double next() { return rate_ * block_++ / intervals_; }

 private:
  double rate_;
  int intervals_, block_ = 0;
};

// Collects layers in order. The input of a layer is the layer before it, unless `inputs` names
// others.
class LayerList {
 public:
  using Names = std::vector<std::string>;

  void add(const std::string& name, config::LayerKind kind, Names inputs = {}) {
    network_.layers.push_back({std::move(kind), name, std::move(inputs), {}});
    network_.groups.push_back(group_);
  }
  // The layers that follow are a new group, or the last one.
  void begin_group() { ++group_; }
  void begin_head() { group_ = kHeadGroup; }
  // Adds the last layer to Network::reshaped.
  void mark_reshaped() { network_.reshaped.push_back(last()); }
  void convolution(const std::string& name, const ConvolutionSpec& spec, Names inputs = {});
  // Adds Keras's padding before a convolution with a stride of 2, with which odd and even images
  // give ceil(size / 2).
  void pad_for_stride(const std::string& name, std::int64_t size);
  void normalise(const std::string& name, double epsilon, double momentum = 0.99,
                 Names inputs = {});
  void activate(const std::string& name, config::Activation function) {
    add(name, config::ActivationLayer{function, {}});
  }
  // Adds stochastic depth, if the rate is above 0.
  void drop_path(const std::string& name, double rate) {
    if (rate > 0) add(name, config::DropPathLayer{rate});
  }
  // Adds the layers with which most networks end, as the last group. No dropout if its rate is 0.
  void classify(const std::string& pool, double dropout, const std::string& dense,
                std::int64_t classes);
  // Halves the size of the image. Call it after a convolution with padding "same" and a stride
  // of 2.
  void halve() {
    image_.height = (image_.height + 1) / 2;
    image_.width = (image_.width + 1) / 2;
  }

  explicit LayerList(Image image = {}) : image_(image) {}
  const std::string& last() const { return network_.layers.back().name; }
  Network take() { return std::move(network_); }

 private:
  Image image_;  // the output of the last layer, if halve() was called for every stride
  Network network_;
  int group_ = 0;
};

// Returns the nearest multiple of eight that is at least eight and at least 0.9 * `channels`.
std::int64_t divisible_by_eight(double channels);

}  // namespace trainer::model
