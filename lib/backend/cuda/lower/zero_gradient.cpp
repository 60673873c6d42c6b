#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

// The flat gradient of an executable starts as zeros, and no other instruction writes this part of
// it.
template <>
void lower(const graph::ZeroGradient&, Lowering& l) {
  const Operand y = l.output(0);
  if (l.is_flat_gradient(0)) return;
  l.emit("fill", [=](const CallContext& c) {
    fill_zeros(c.at(y.buffer), static_cast<std::size_t>(y.bytes()), c.stream);
  });
}

}  // namespace trainer::backend::cuda
