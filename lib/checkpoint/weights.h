// Pretrained weights in the files that the field ships them in.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace trainer::checkpoint {

// All tensors of a weight file but its optimizer state. The content decides the format: Keras .h5
// (the layout of the applications, or of a whole saved model), Keras 3 .weights.h5 and .keras,
// safetensors, npz.
//
// Names of Keras's are "<layer>/<weight>" without ":0"; .weights.h5 has no names for weights, only
// their numbers: "<layer>/0". Throws DataError.
std::vector<Tensor> read_weights(const Path& path);

// One layer of a Keras file: its name, Keras's class ("Conv2D") and its weights in Keras's order,
// or as a "Sequential" in a model the layers in it.
struct KerasLayer {
  std::string name, kind;
  std::vector<std::pair<std::string, Tensor>> weights;  // "kernel", in Keras's shape
  std::vector<KerasLayer> layers = {};
};
enum class KerasLayout {
  kApplications,  // .h5: layer_names and weight_names attributes
  kKeras3         // .weights.h5: layers/<class>_<number>/vars/<number>
};
void write_keras_h5(const Path& path, const std::vector<KerasLayer>& layers, KerasLayout layout);

// "conv2d" for "conv2d_2" and "conv2d": without the number that Keras gives.
std::string_view without_keras_number(std::string_view name);
// "DepthwiseConv2D" -> "depthwise_conv2d", as Keras names layers after their class.
std::string snake_case(const std::string& class_name);

}  // namespace trainer::checkpoint
