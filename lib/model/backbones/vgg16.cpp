// VGG16 of keras.applications and of torchvision (Simonyan and Zisserman, arXiv:1409.1556,
// configuration D), which differ in the names of layers.
#include "model/backbones/backbone.h"

namespace trainer::model {

std::vector<config::Layer> vgg16_features(config::Backbone::Variant variant) {
  struct Block {
    int convolutions;
    std::int64_t filters;
  };
  constexpr Block kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  const bool is_keras = variant == config::Backbone::Variant::kKeras;
  std::vector<config::Layer> layers;
  int number = 0;
  int module = 0;  // torchvision counts convolutions, activations and poolings
  for (const Block& block : kBlocks) {
    const std::string prefix = concat("block", ++number, '_');
    for (int i = 1; i <= block.convolutions; ++i, module += 2) {
      config::ConvLayer conv;
      conv.filters = block.filters;
      conv.padding.kind = config::Padding::Kind::kSame;
      conv.activation = config::Activation::kRelu;
      layers.push_back(
          named(is_keras ? concat(prefix, "conv", i) : concat("features.", module), conv));
    }
    layers.push_back(
        named(is_keras ? prefix + "pool" : concat("features.", module), config::MaxPoolLayer{}));
    ++module;
  }
  return layers;
}

}  // namespace trainer::model
