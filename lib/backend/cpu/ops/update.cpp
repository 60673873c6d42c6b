#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

// The update runs over flat buffers, not node by node (gradients/update.h).
template <>
void lower(const graph::Update&, Lowering&) {}

}  // namespace trainer::backend::cpu
