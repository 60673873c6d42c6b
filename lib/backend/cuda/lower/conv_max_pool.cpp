#include <stdexcept>

#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::ConvMaxPool&, Lowering&) {
  throw std::logic_error("conv_max_pool is not among the capabilities of CUDA devices");
}
template <>
void lower(const graph::ConvMaxPoolBackwardWeights&, Lowering&) {
  throw std::logic_error("conv_max_pool is not among the capabilities of CUDA devices");
}

}  // namespace trainer::backend::cuda
