// The groups that the CUDA backend runs as one instruction (backend/fuse/grouping.h). Each pattern
// has a file of its own, and its groups are lowered in the file of the same name in lower/.
// Reasons: lib/decisions/backend.md#a-backend-chooses-its-fused-operations.
#pragma once

#include <variant>
#include <vector>

#include "backend/fuse/grouping.h"
#include "graph/graph.h"

namespace trainer::backend::cuda {

// y = activation(x[0] + x[1]): residual_sum.cpp. Without an activation it is not a group.
struct AddActivate {
  const graph::Node* node = nullptr;  // the activation
  graph::ValueId terms[2];
  graph::Activation activation;
};

// y = activation(batch_norm(x) + addend): residual_sum.cpp. The norm's output is not written.
struct NormAdd {
  const graph::Node* node = nullptr;  // the node that writes y
  const graph::Node* norm = nullptr;  // a BatchNorm without an activation
  graph::ValueId addend = graph::kNoValue;
  graph::Activation activation;  // linear: none
};

// dx = (terms[0] + terms[1]) * activation'(saved): residual_gradient.cpp.
struct AddActivateBackward {
  const graph::Node* node = nullptr;  // the activation's gradient
  graph::ValueId terms[2];
  graph::ValueId saved = graph::kNoValue;
  graph::Activation activation;
};

// A gradient g, which is terms[0] + terms[1], or terms[0] alone, times activation'(saved) where
// there is an activation; and the gradient of a batch norm from g. One pass writes g and takes the
// sums that the norm needs: residual_gradient.cpp.
struct GradientNorm {
  const graph::Node* node = nullptr;       // the node that writes g
  const graph::Node* norm = nullptr;       // a BatchNormBackward without an activation
  graph::ValueId terms[2];                 // the second one may be kNoValue
  graph::ValueId saved = graph::kNoValue;  // kNoValue without an activation
  graph::Activation activation;
};

// The set is closed: a group without a lower() does not link. The fused results have the same
// bits as those of their nodes, since each value is rounded to its type.
using Group = std::variant<SingleNode, AddActivate, NormAdd, AddActivateBackward, GradientNorm>;

using Grouping = backend::Grouping<Group>;

// The patterns.
void fuse_residual_sums(Grouping& grouping);
void fuse_residual_gradients(Grouping& grouping);

// The groups of a graph, by all patterns. The graph must outlive them.
std::vector<Group> find_groups(const graph::Graph& graph);

}  // namespace trainer::backend::cuda
