// Reads and writes weights in the HDF5 files of Keras, and follows Keras's rules for names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

// Returns the tensors of one of Keras's HDF5 files in memory. `source` names it in messages.
// `classes`, unless null, becomes the printable names in the attribute class_names, which
// write_keras_h5() writes.
std::vector<Tensor> read_keras_h5(const std::string& source, std::span<const std::uint8_t> bytes,
                                  std::vector<std::string>* classes = nullptr,
                                  Content content = Content::kAll);

// One layer of a Keras file: its name, Keras's class ("Conv2D") and its weights in Keras's order. A
// "Sequential" inside a model has layers in place of weights.
struct KerasLayer {
  std::string name, kind;
  std::vector<std::pair<std::string, Tensor>> weights;  // "kernel", in Keras's shape
  std::vector<KerasLayer> layers = {};
};
enum class KerasLayout {
  kApplications,  // .h5: layer_names and weight_names attributes
  kKeras3         // .weights.h5: layers/<class>_<number>/vars/<number>
};
// Writes the layers, and `classes`, unless empty, as the attribute class_names of the file, which
// Keras ignores.
void write_keras_h5(const Path& path, const std::vector<KerasLayer>& layers, KerasLayout layout,
                    const std::vector<std::string>& classes = {});

// Removes the number that Keras adds to a name: "conv2d" for "conv2d_2" and "conv2d".
std::string_view without_keras_number(std::string_view name);
// Converts a class to the name that Keras gives its layers: "DepthwiseConv2D" ->
// "depthwise_conv2d".
std::string snake_case(const std::string& class_name);

}  // namespace trainer::checkpoint
