// The groups that the CPU backend runs as one fused op (backend/fuse/grouping.h). Each pattern has
// a file of its own, and each group has one lower() in ops/.
// Reasons: lib/decisions/backend.md#a-backend-chooses-its-fused-operations.
#pragma once

#include <variant>
#include <vector>

#include "backend/fuse/grouping.h"
#include "graph/graph.h"

namespace trainer::backend::cpu {

struct JointLayer;
class JointLayers;
struct Machine;

// A value that one fused op makes for others and that the graph does not have. It holds numbers for
// each channel.
using ExtraId = int;
constexpr ExtraId kNoExtra = -1;

// A batch norm whose output no instruction writes: the readers compute the output from the norm's
// x.
struct UnwrittenNorm {
  const graph::Node* norm = nullptr;  // a BatchNorm or a BatchNormInference
  ExtraId coefficients = kNoExtra;    // NormRows::kForwardRows
};

// A batch norm in training form. Neighbouring groups may compute a part of it.
struct PartialNorm {
  static constexpr char kName[] = "partial_batch_norm";
  const graph::Node* node = nullptr;  // a BatchNorm
  // The moments of x, made by the instruction that makes x. kNoExtra: this group takes them.
  ExtraId moments = kNoExtra;
  // NormRows::kForwardRows for the readers of y, which compute y. kNoExtra: this group writes y.
  ExtraId coefficients = kNoExtra;
};

// The coefficients of a batch norm with moving statistics, whose readers compute its output.
struct PartialNormInference {
  static constexpr char kName[] = "partial_batch_norm_inference";
  const graph::Node* node = nullptr;  // a BatchNormInference
  ExtraId coefficients = kNoExtra;
};

// The gradient of a batch norm in training form. Neighbouring groups may compute a part of it.
struct PartialNormBackward {
  static constexpr char kName[] = "partial_batch_norm_backward";
  const graph::Node* node = nullptr;  // a BatchNormBackward
  // GradientSums, made by the instruction that makes dy; dy is then the gradient before the norm's
  // activation. kNoExtra: this group takes them.
  ExtraId sums = kNoExtra;
  // NormRows::kBackwardRows for the readers of dx, which compute dx. kNoExtra: this group writes
  // dx.
  ExtraId coefficients = kNoExtra;
};

// y = activation(norm + other_norm), or activation(norm + addend): residual_sum.cpp.
struct ResidualSum {
  static constexpr char kName[] = "residual_sum";
  const graph::Node* node = nullptr;  // the node that writes y
  UnwrittenNorm norm;
  UnwrittenNorm other_norm;                 // null norm: `addend` is the other term
  graph::ValueId addend = graph::kNoValue;  // kNoValue with `other_norm`
  graph::Activation activation;
};

// dx = (terms[0] + terms[1]) * activation'(saved), or terms[0] * activation'(saved), and the sums
// of dx that a norm's gradient needs: residual_gradient.cpp.
struct ResidualGradient {
  static constexpr char kName[] = "residual_gradient";
  const graph::Node* node = nullptr;  // an ActivateBackward
  graph::ValueId terms[2] = {graph::kNoValue, graph::kNoValue};
  const graph::Node* norm = nullptr;  // a BatchNormBackward that reads dx; null: no sums
  ExtraId sums = kNoExtra;
};

// A depthwise convolution that normalizes its input and takes the moments of its output:
// depthwise_chain.cpp.
struct DepthwiseChain {
  static constexpr char kName[] = "depthwise_chain";
  const graph::Node* node = nullptr;  // a Conv
  UnwrittenNorm input;
  ExtraId moments = kNoExtra;  // MomentRows
};

// The gradients of a DepthwiseChain: that of its input, before the activation of the input norm,
// that of its kernel, and the sums that the gradient of the input norm needs. This group computes
// dy, the gradient of the convolution's output, which the gradient of the norm after it does not
// write.
struct DepthwiseChainBackward {
  static constexpr char kName[] = "depthwise_chain_backward";
  const graph::Node* node = nullptr;     // a ConvBackwardData
  const graph::Node* weights = nullptr;  // a ConvBackwardWeights
  UnwrittenNorm input;
  const graph::Node* after = nullptr;  // the BatchNormBackward that does not write dy
  ExtraId after_coefficients = kNoExtra;
  // The gradient that `after` reads must still be multiplied by the derivative of this activation.
  graph::Activation after_activation;
  ExtraId sums = kNoExtra;  // GradientSums
};

// A convolution of images of few channels and the max pooling that alone reads its output, which no
// instruction writes: conv_max_pool.cpp.
struct ConvMaxPool {
  static constexpr char kName[] = "conv_max_pool";
  const graph::Node* node = nullptr;  // a Conv
  const graph::Node* pool = nullptr;  // a Pool
};

// The gradients of the kernel and bias of a ConvMaxPool. No instruction writes the gradient between
// the two.
struct ConvMaxPoolBackwardWeights {
  static constexpr char kName[] = "conv_max_pool_backward_weights";
  const graph::Node* node = nullptr;  // a ConvBackwardWeights
  const graph::Node* pool = nullptr;  // a PoolBackward
};

// The ops of a dense layer that all lanes compute together: joint_dense.cpp.
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

// The set is closed: a group without a lower() does not link.
using Group = std::variant<SingleNode, PartialNorm, PartialNormInference, PartialNormBackward,
                           ResidualSum, ResidualGradient, DepthwiseChain, DepthwiseChainBackward,
                           ConvMaxPool, ConvMaxPoolBackwardWeights, JointDense,
                           JointDenseBackwardData, JointDenseBackwardWeights>;

class Grouping : public backend::Grouping<Group> {
 public:
  using backend::Grouping<Group>::Grouping;

  ExtraId new_extra() { return extras_++; }
  // Leaves the output of a norm, a BatchNorm or a BatchNormInference, to its readers.
  UnwrittenNorm leave_output(int norm);

 private:
  ExtraId extras_ = 0;
};

// Each function adds the groups of one pattern.
void fuse_residual_sums(Grouping& grouping);
void fuse_residual_gradients(Grouping& grouping, const Machine& machine);
void fuse_depthwise_chains(Grouping& grouping, const Machine& machine);
void fuse_conv_max_pools(Grouping& grouping);
void fuse_joint_dense(Grouping& grouping, JointLayers& layers);

// Returns the groups of a graph, by all patterns. The graph must outlive the groups. `joint` is
// null if no layer is computed by all lanes together.
std::vector<Group> find_groups(const graph::Graph& graph, const Machine& machine,
                               JointLayers* joint);

// Returns the name of the group in printed programs and profiles: that of the fused op, or of the
// single node's op.
const char* name_of(const Group& group);

}  // namespace trainer::backend::cpu
