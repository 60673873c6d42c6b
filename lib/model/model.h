// Config -> forward graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "graph/graph.h"

namespace trainer::model {

// Shapes and types of a data set's samples.
struct SampleSpec {
  Shape image;  // [height, width, channels]
  DType image_type = DType::kUInt8;
  bool label_is_index = true;  // int32 class index; otherwise float32 targets of `classes` numbers
  std::int64_t classes = 0;
  std::vector<float> class_weight = {};  // of the training loss, by class; all 1 when empty
  bool sample_weight = false;            // whether the labels of training have a weight each
};

// Layers as they stand, with batch norm and dropout in their training form; inputs "images" and
// "labels"; the last node is the loss without its gradient; outputs are logits and loss.
// Throws ConfigError with every mistake that can be found.
graph::Graph build_model(const config::Model& model, const config::Data& data,
                         const SampleSpec& sample, std::uint64_t seed);

// The initial content of a persistent value, a pure function of (seed, name, shape): logical
// layout.
std::vector<float> initial_values(const graph::Value& value, std::uint64_t seed);

// The layer table as Keras's summary has it: one row a layer.
struct LayerRow {
  std::string name, kind, output_shape;
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t flops = 0;  // forward, one sample
  bool trainable = true;
  std::string weights;  // file that its parameters start from; "" for the initialisers
  std::string
      batch_norm;  // "batch" or "moving": the statistics used in training; "" for other layers
};
std::vector<LayerRow> layer_table(const graph::Graph& graph);

}  // namespace trainer::model
