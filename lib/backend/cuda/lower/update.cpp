#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

// The update runs over flat buffers, not node by node.
template <>
void lower(const graph::Update&, Lowering&) {}

}  // namespace trainer::backend::cuda
