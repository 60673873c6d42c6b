// keras.applications.ConvNeXtTiny (Liu et al., arXiv:2201.03545), without the layer that prepares
// the image, which data.preprocess does. Keras's dense layers of pixels are 1x1 convolutions here.
#include "base/error.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

const std::string kName = "convnext_tiny";

void normalise(LayerList& list, const std::string& name) {
  config::LayerNormLayer norm;
  norm.epsilon = 1e-6;
  list.add(name, norm);
}

// Adds a convolution of patches that do not overlap.
void patches(LayerList& list, const std::string& name, std::int64_t filters, std::int64_t size) {
  ConvolutionSpec spec{filters, size, size, config::Padding::Kind::kValid};
  spec.bias = true;
  list.convolution(name, spec);
}

void block(LayerList& list, const std::string& name, std::int64_t channels, double drop_path) {
  const std::string input = list.last();
  config::ConvLayer depthwise;
  depthwise.filters = depthwise.groups = channels;
  depthwise.kernel_size = {7, 7};
  depthwise.padding.kind = config::Padding::Kind::kSame;
  list.add(name + "_depthwise_conv", depthwise);
  normalise(list, name + "_layernorm");
  patches(list, name + "_pointwise_conv_1", 4 * channels, 1);
  list.activate(name + "_gelu", config::Activation::kGelu);
  patches(list, name + "_pointwise_conv_2", channels, 1);
  list.add(name + "_layer_scale", config::LayerScaleLayer{});
  list.drop_path(name + "_stochastic_depth", drop_path);
  list.add(name + "_add", config::AddLayer{}, {input, list.last()});
}

// Returns the number after the last underscore of a name.
std::string last_number(const std::string& name) { return name.substr(name.rfind('_') + 1); }

}  // namespace

KerasPlace place_in_keras(const std::string& layer) {
  KerasPlace place;
  if (!layer.starts_with(kName + '_')) return place;
  const std::string part = layer.substr(kName.size() + 1);
  if (part == "stem_conv" || part == "stem_layernorm") place.model = kName + "_stem";
  if (part.starts_with("downsampling_")) {
    place.model = concat(kName, "_downsampling_block_", last_number(part));
  }
  place.is_dense = part.find("_pointwise_conv_") != std::string::npos;
  return place;
}

std::vector<config::Layer> convnext_tiny_features(double drop_path) {
  struct Stage {
    std::int64_t channels;
    int blocks;
  };
  constexpr Stage kStages[] = {{96, 3}, {192, 3}, {384, 9}, {768, 3}};
  int blocks = 0;
  for (const Stage& stage : kStages) blocks += stage.blocks;
  DropPathRates rates(drop_path, blocks - 1);
  LayerList list;
  patches(list, kName + "_stem_conv", 96, 4);
  normalise(list, kName + "_stem_layernorm");
  int number = 0;
  for (const Stage& stage : kStages) {
    if (number > 0) {
      normalise(list, concat(kName, "_downsampling_layernorm_", number - 1));
      patches(list, concat(kName, "_downsampling_conv_", number - 1), stage.channels, 2);
    }
    for (int i = 0; i < stage.blocks; ++i) {
      block(list, concat(kName, "_stage_", number, "_block_", i), stage.channels, rates.next());
    }
    ++number;
  }
  return list.take();
}

}  // namespace trainer::model
