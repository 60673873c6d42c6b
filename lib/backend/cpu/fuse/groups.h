// The groups that the CPU backend runs as one fused op (backend/fuse/grouping.h). Each pattern has
// a file of its own, and each group has one lower() in the file of its name in ops/.
#pragma once

#include <variant>
#include <vector>

#include "backend/fuse/grouping.h"
#include "graph/graph.h"

namespace trainer::backend::cpu {

struct JointLayer;
class JointLayers;

// The passes of a dense layer that all lanes compute together: joint_dense.cpp.
struct JointDense {
  static constexpr char kName[] = "joint_dense";
  const graph::Node* node = nullptr;  // a Dense
  JointLayer* layer = nullptr;
};
struct JointDenseBackwardData {
  static constexpr char kName[] = "joint_dense_backward_data";
  const graph::Node* node = nullptr;  // a DenseBackwardData
  JointLayer* layer = nullptr;
};
struct JointDenseBackwardWeights {
  static constexpr char kName[] = "joint_dense_backward_weights";
  const graph::Node* node = nullptr;  // a DenseBackwardWeights
  JointLayer* layer = nullptr;
};

// The set is closed: a group without a lower() does not compile.
using Group =
    std::variant<SingleNode, JointDense, JointDenseBackwardData, JointDenseBackwardWeights>;

using Grouping = backend::Grouping<Group>;

// The patterns.
void fuse_joint_dense(Grouping& grouping, JointLayers& layers);

// The groups of a graph, by all patterns. The graph must outlive them. `joint` is null where lanes
// compute alone.
std::vector<Group> find_groups(const graph::Graph& graph, JointLayers* joint);

// The name by which a program and a profile show what computes the group: that of the fused op, or
// of the node's op.
const char* name_of(const Group& group);

}  // namespace trainer::backend::cpu
