// The activation functions of layers, and of the ops that compute them.
#pragma once

#include "base/spelling.h"

namespace trainer {

// All but softmax are element-wise. The negative part, min(x, 0), is a part of PReLU; no config
// names it.
enum class ActivationKind {
  kLinear,
  kRelu,
  kRelu6,
  kLeakyRelu,
  kElu,
  kSigmoid,
  kTanh,
  kGelu,
  kSwish,
  kHardSigmoid,
  kHardSwish,
  kSelu,
  kSoftmax,
  kNegativePart
};
constexpr auto spellings(ActivationKind) {
  using enum ActivationKind;
  return std::to_array<Spelling<ActivationKind>>({{kLinear, "linear"},
                                                  {kRelu, "relu"},
                                                  {kRelu6, "relu6"},
                                                  {kLeakyRelu, "leaky_relu"},
                                                  {kElu, "elu"},
                                                  {kSigmoid, "sigmoid"},
                                                  {kTanh, "tanh"},
                                                  {kGelu, "gelu"},
                                                  {kSwish, "swish"},
                                                  {kSoftmax, "softmax"},
                                                  {kHardSigmoid, "hard_sigmoid"},
                                                  {kHardSwish, "hard_swish"},
                                                  {kSelu, "selu"}});
}

}  // namespace trainer
