// The dense layers that lanes compute together. lanes/joint_layers.h chooses these layers.
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/placement.h"

namespace trainer::backend::cpu {

void fuse_joint_dense(Grouping& grouping, JointLayers& layers) {
  const graph::Graph& graph = grouping.graph();
  for (int i = 0; i < std::ssize(graph.nodes); ++i) {
    const graph::Node& node = graph.nodes[i];
    const auto take = [&]<class Joint>(Joint group, const std::string& kernel) {
      group.layer = layers.find(kernel);
      if (group.layer != nullptr) grouping.take({i}, i, group);
    };
    if (std::holds_alternative<graph::Dense>(node.op)) {
      take(JointDense{&node}, graph[node.inputs[1]].name);
    } else if (std::holds_alternative<graph::DenseBackwardData>(node.op)) {
      take(JointDenseBackwardData{&node}, graph[node.inputs[1]].name);
    } else if (std::holds_alternative<graph::DenseBackwardWeights>(node.op)) {
      take(JointDenseBackwardWeights{&node}, parameter_name(graph[node.outputs[0]].name));
    }
  }
}

}  // namespace trainer::backend::cpu
