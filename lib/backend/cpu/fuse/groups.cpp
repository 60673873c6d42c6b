#include "backend/cpu/fuse/groups.h"

namespace trainer::backend::cpu {

UnwrittenNorm Grouping::leave_output(int norm) {
  const graph::Node& node = graph().nodes[norm];
  const bool training = std::holds_alternative<graph::BatchNorm>(node.op);
  ExtraId& coefficients = training ? change<PartialNorm>(norm).coefficients
                                   : change<PartialNormInference>(norm).coefficients;
  if (coefficients == kNoExtra) coefficients = new_extra();
  return {&node, coefficients};
}

std::vector<Group> find_groups(const graph::Graph& graph, const Machine& machine,
                               JointLayers* joint) {
  Grouping grouping(graph);
  fuse_residual_sums(grouping);
  fuse_residual_gradients(grouping, machine);
  fuse_depthwise_chains(grouping, machine);
  fuse_conv_max_pools(grouping);
  if (joint != nullptr) fuse_joint_dense(grouping, *joint);
  return grouping.groups();
}

const char* name_of(const Group& group) {
  return std::visit(
      [](const auto& any) {
        if constexpr (requires { any.kName; }) return any.kName;
        return graph::name_of(any.node->op);
      },
      group);
}

}  // namespace trainer::backend::cpu
