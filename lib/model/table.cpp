#include "model/table.h"

#include "base/error.h"
#include "base/formats/table.h"

namespace trainer::model {

std::vector<LayerRow> layer_table(const graph::Graph& graph) {
  std::vector<LayerRow> rows;
  for (const graph::LayerInfo& layer : graph.layers) {
    LayerRow row;
    row.name = layer.name;
    row.kind = layer.kind;
    row.trainable = layer.trainable;
    if (!layer.parameters.empty()) row.weights = layer.weights;
    if (layer.kind == "BatchNormalization") {
      row.batch_norm = layer.trainable && !layer.moving_statistics ? "batch" : "moving";
    }
    if (layer.output != graph::kNoValue) row.output_shape = to_string(graph[layer.output].shape);
    for (const graph::ValueId id : layer.parameters) {
      const graph::Value& value = graph[id];
      row.parameters += value.shape.elements();
      if (layer.trainable && value.trainable) row.trainable_parameters += value.shape.elements();
    }
    for (const graph::Node& node : graph.nodes) {
      if (node.phase == graph::Phase::kForward && node.name == layer.name) {
        row.flops += graph::flops(graph, node);
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string describe_model(const config::Model& model, const std::vector<LayerRow>& layers) {
  std::int64_t parameters = 0, trained = 0;
  std::int64_t count = 0;  // without the input
  for (const LayerRow& layer : layers) {
    count += layer.kind == "InputLayer" ? 0 : 1;
    parameters += layer.parameters;
    trained += layer.trainable_parameters;
  }
  const std::string backbone =
      model.backbone ? concat(spell(model.backbone->name), ", ") : std::string();
  return concat(backbone, grouped(count), " layers, ", grouped(parameters),
                " parameters, of which ", grouped(trained), " are trained");
}

}  // namespace trainer::model
