// Lists the layers of a model as a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/sections/model.h"
#include "graph/graph.h"

namespace trainer::model {

// A row of the layer table, which has one row per layer as in Keras's summary().
struct LayerRow {
  std::string name, kind, output_shape;
  std::int64_t parameters = 0;
  std::int64_t trainable_parameters = 0;
  std::int64_t flops = 0;  // forward, one sample
  bool trainable = true;
  std::string weights;  // the file from which its parameters start; "" for the initialisers
  // "batch" or "moving": the statistics used in training; "" for other layers.
  std::string batch_norm;
};
std::vector<LayerRow> layer_table(const graph::Graph& graph);

// Returns "mobilenet_v2, 156 layers, 2,260,546 parameters, of which 2,562 are trained"; the
// input is not a layer.
std::string describe_model(const config::Model& model, const std::vector<LayerRow>& layers);

}  // namespace trainer::model
