// The dense layers that lanes compute together. lanes/joint_layers.h chooses these layers.
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/placement.h"

namespace trainer::backend::cpu {

void fuse_joint_dense(Grouping& grouping, JointLayers& layers) {
  const graph::Graph& graph = grouping.graph();
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const graph::Node& node = graph.nodes[i];
    if (std::holds_alternative<graph::Dense>(node.op)) {
      if (JointLayer* layer = layers.find(graph[node.inputs[1]].name)) {
        grouping.take({i}, i, JointDense{&node, layer});
      }
    } else if (std::holds_alternative<graph::DenseBackwardData>(node.op)) {
      if (JointLayer* layer = layers.find(graph[node.inputs[1]].name)) {
        grouping.take({i}, i, JointDenseBackwardData{&node, layer});
      }
    } else if (std::holds_alternative<graph::DenseBackwardWeights>(node.op)) {
      if (JointLayer* layer = layers.find(parameter_name(graph[node.outputs[0]].name))) {
        grouping.take({i}, i, JointDenseBackwardWeights{&node, layer});
      }
    }
  }
}

}  // namespace trainer::backend::cpu
