#include <algorithm>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::ZeroGradient& op, Lowering& l) {
  const BufferId y = l.output(0, Layout::kPlain).buffer;
  const std::int64_t count = op.shape.elements();
  l.emit("fill", [=](const CallContext& c) { std::fill_n(c.at<float>(y), count, 0.0f); });
}

}  // namespace trainer::backend::cpu
