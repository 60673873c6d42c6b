// keras.applications.VGG16 (Simonyan and Zisserman, arXiv:1409.1556, configuration D).
#include "model/backbones/backbone.h"

namespace trainer::model {

std::vector<config::Layer> vgg16_features() {
  struct Block {
    int convolutions;
    std::int64_t filters;
  };
  constexpr Block kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  std::vector<config::Layer> layers;
  int number = 0;
  for (const Block& block : kBlocks) {
    const std::string prefix = concat("block", ++number, '_');
    for (int i = 1; i <= block.convolutions; ++i) {
      config::ConvLayer conv;
      conv.filters = block.filters;
      conv.padding.kind = config::Padding::Kind::kSame;
      conv.activation = config::Activation::kRelu;
      layers.push_back(named(concat(prefix, "conv", i), conv));
    }
    layers.push_back(named(prefix + "pool", config::MaxPoolLayer{}));
  }
  return layers;
}

}  // namespace trainer::model
