#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::ZeroGradient&, Lowering& l) {
  const Operand y = l.output(0);
  l.step("fill", [=](const StepContext& c) {
    check(cudaMemsetAsync(c.at(y.buffer), 0, y.bytes(), c.stream), "cudaMemsetAsync");
  });
}

}  // namespace trainer::backend::cuda
