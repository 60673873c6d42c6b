#include "backend/cpu/fuse/groups.h"

namespace trainer::backend::cpu {
namespace {

const char* name_of_group(const SingleNode& group) { return graph::name_of(group.node->op); }

template <class Fused>
const char* name_of_group(const Fused&) {
  return Fused::kName;
}

}  // namespace

std::vector<Group> find_groups(const graph::Graph& graph, JointLayers* joint) {
  Grouping grouping(graph);
  if (joint != nullptr) fuse_joint_dense(grouping, *joint);
  return grouping.groups();
}

const char* name_of(const Group& group) {
  return std::visit([](const auto& any) { return name_of_group(any); }, group);
}

}  // namespace trainer::backend::cpu
