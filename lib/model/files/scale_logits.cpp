#include "model/files/scale_logits.h"

namespace trainer::model {

bool divide_logits(const graph::Graph& graph, double divisor,
                   std::vector<checkpoint::Tensor>& tensors) {
  const int producer = graph.producer(graph.outputs.at(0));
  if (producer < 0) return false;
  const graph::Node& node = graph.nodes[producer];
  if (!std::holds_alternative<graph::Dense>(node.op)) return false;
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (graph.consumers(node.inputs[i]).size() != 1) return false;
  }
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const std::string& name = graph[node.inputs[i]].name;
    for (checkpoint::Tensor& tensor : tensors) {
      if (tensor.name != name && tensor.name != name + "/average") continue;
      for (float& x : tensor.values) x = static_cast<float>(static_cast<double>(x) / divisor);
    }
  }
  return true;
}

}  // namespace trainer::model
