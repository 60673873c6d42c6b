// Depthwise convolutions between two batch norms:
//   x -> norm before -> z -> convolution -> y -> norm after -> w
// whose z and gradient of y are not written. The convolution makes rows of them where it needs
// them, and takes the sums of both norms while its results are in the first cache.
#pragma once

#include <map>
#include <set>

#include "backend/cpu/ops/batch_norm.h"

namespace trainer::backend::cpu {

class DepthwiseChains {
 public:
  // None where blocks of channels are fewer than the threads of a worker.
  DepthwiseChains(const graph::Graph& graph, const Machine& machine);

  // Whether a batch norm does not write its output z: the convolutions that read it compute it.
  bool skips_output(graph::ValueId z) const { return outputs_.contains(z); }
  // Whether the backward form of a batch norm does not write dy, its gradient: ConvBackwardData
  // computes it.
  bool skips_gradient(graph::ValueId dy) const { return gradients_.contains(dy); }
  // The z of the convolution whose dy it is.
  graph::ValueId input_of(graph::ValueId dy) const { return gradients_.at(dy); }

  // ---- What steps leave to later ones ----
  struct Input {  // by z
    Operand x;
    NormBuffers norm;
    Buffer inverse_std;  // padded
  };
  struct Moments {  // by y
    Buffer moments, shift;
  };
  struct Gradient {  // by dy
    Operand y, dw;
    NormBuffers norm;
    Buffer p, q, r;
  };
  std::map<graph::ValueId, Input> inputs;
  std::map<graph::ValueId, Moments> moments;
  std::map<graph::ValueId, Gradient> skipped_gradients;
  std::map<graph::ValueId, Buffer> kernel_gradients;  // by dy, [9, channels padded]
  // By dz: the sums of the norm before. That dz is the gradient before the gate already.
  std::map<graph::ValueId, Buffer> sums;

 private:
  std::set<graph::ValueId> outputs_;
  std::map<graph::ValueId, graph::ValueId> gradients_;  // dy -> z
};

// Lowers an op of a chain; false when the op is in none.
bool lower_in_chain(const graph::Conv& op, Lowering& l);
bool lower_in_chain(const graph::ConvBackwardData& op, Lowering& l);
bool lower_in_chain(const graph::ConvBackwardWeights& op, Lowering& l);

}  // namespace trainer::backend::cpu
