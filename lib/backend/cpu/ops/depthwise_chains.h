// Depthwise convolutions between two batch norms:
//   x -> norm before -> z -> convolution -> y -> norm after -> w
// whose z and gradient of y are not written. The convolution makes rows of them where it needs
// them, and takes the sums of both norms while its results are in the first cache.
#pragma once

#include <map>
#include <set>

#include "backend/cpu/ops/norm_rows.h"

namespace trainer::backend::cpu {

class DepthwiseChains {
 public:
  explicit DepthwiseChains(const graph::Graph& graph);

  // Whether a batch norm leaves its output z to the convolutions that read it.
  bool leaves_output(graph::ValueId z) const { return outputs_.contains(z); }
  // Whether the backward form of a batch norm leaves its dx, the dy of a convolution, to that.
  bool leaves_gradient(graph::ValueId dy) const { return gradients_.contains(dy); }
  // The z of the convolution whose dy it is.
  graph::ValueId input_of(graph::ValueId dy) const { return gradients_.at(dy); }

  // ---- What steps leave to later ones ----
  struct Input {  // by z
    Operand x;
    Affine rows;
    Buffer inverse_std;  // padded
  };
  struct Moments {  // by y
    Buffer moments, shift;
  };
  struct Gradient {  // by dy
    Operand y, dw;
    Affine rows;
    Buffer p, q, r;
  };
  std::map<graph::ValueId, Input> inputs;
  std::map<graph::ValueId, Moments> moments;
  std::map<graph::ValueId, Gradient> left_gradients;
  std::map<graph::ValueId, Buffer> kernel_gradients;  // by dy, [9, channels padded]
  // By dz: the sums of the norm before. That dz is the gradient before the gate already.
  std::map<graph::ValueId, Buffer> sums;

 private:
  std::set<graph::ValueId> outputs_;
  std::map<graph::ValueId, graph::ValueId> gradients_;  // dy -> z
};

// Lowers an op of such a convolution; false when it is of none.
bool lower_in_chain(const graph::Conv& op, Lowering& l);
bool lower_in_chain(const graph::ConvBackwardData& op, Lowering& l);
bool lower_in_chain(const graph::ConvBackwardWeights& op, Lowering& l);

}  // namespace trainer::backend::cpu
