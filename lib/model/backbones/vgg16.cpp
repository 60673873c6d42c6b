// VGG16 of keras.applications, torchvision and timm (Simonyan and Zisserman, arXiv:1409.1556,
// configuration D), which differ in the names of layers.
#include "config/pretrained.h"
#include "model/backbones/layer_list.h"

namespace trainer::model {
namespace {

using Variant = config::Backbone::Variant;

void add_dense(LayerList& list, const std::string& name, std::int64_t units,
               config::Activation activation) {
  config::DenseLayer layer;
  layer.units = units;
  layer.activation = activation;
  list.add(name, layer);
}

// The classifiers of torchvision and timm have dropout too.
void add_top(LayerList& list, Variant variant, std::int64_t classes) {
  struct TopNames {
    const char *first, *first_drop, *second, *second_drop, *logits;
  };
  const TopNames names =
      variant == Variant::kKeras ? TopNames{"fc1", nullptr, "fc2", nullptr, "predictions"}
      : variant == Variant::kTimm
          ? TopNames{"pre_logits.fc1", "pre_logits.drop", "pre_logits.fc2", "head.drop", "head.fc"}
          : TopNames{"classifier.0", "classifier.2", "classifier.3", "classifier.5",
                     "classifier.6"};
  list.begin_head();
  list.add("flatten", config::FlattenLayer{});
  add_dense(list, names.first, 4096, config::Activation::kRelu);
  if (variant == Variant::kTimm) list.mark_reshaped();
  if (names.first_drop != nullptr) list.add(names.first_drop, config::DropoutLayer{0.5});
  add_dense(list, names.second, 4096, config::Activation::kRelu);
  if (variant == Variant::kTimm) list.mark_reshaped();
  if (names.second_drop != nullptr) list.add(names.second_drop, config::DropoutLayer{0.5});
  add_dense(list, names.logits, classes, config::Activation::kLinear);
}

}  // namespace

Network vgg(const config::Backbone& backbone, Image, std::int64_t classes) {
  if (backbone.name != config::Backbone::Name::kVgg16) return {};
  struct Block {
    int convolutions;
    std::int64_t filters;
  };
  constexpr Block kBlocks[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  const Variant variant = config::find_variant(backbone);
  const bool is_keras = variant == Variant::kKeras;
  LayerList list;
  int number = 0;
  int module = 0;  // torchvision counts convolutions, activations and poolings
  for (const Block& block : kBlocks) {
    const std::string prefix = concat("block", ++number, '_');
    for (int i = 1; i <= block.convolutions; ++i, module += 2) {
      ConvolutionSpec conv{block.filters, 3};
      conv.bias = true;
      conv.activation = config::Activation::kRelu;
      list.begin_group();
      list.convolution(is_keras ? concat(prefix, "conv", i) : concat("features.", module), conv);
    }
    list.add(is_keras ? prefix + "pool" : concat("features.", module), config::MaxPoolLayer{});
    ++module;
  }
  if (backbone.include_top) add_top(list, variant, classes);
  Network network = list.take();
  network.has_named_pooling = false;
  return network;
}

}  // namespace trainer::model
