#include "backend/cuda/kernels/elementwise.h"
#include "backend/cuda/lowering.h"

namespace trainer::backend::cuda {

template <>
void lower(const graph::PrependTokens&, Lowering& l) {
  const Operand y = l.output(0);
  const Operand x = l.input(0, y.type);
  const BufferId first = l.packed_vector(1, y.type);
  const std::int64_t before = y.bytes() / y.n() - x.bytes() / x.n(), size = x.bytes() / x.n();
  l.emit("copy", [=](const CallContext& c) {
    const BoxPitch whole{before + size, 0, 0};
    copy_box(c.at(first), {0, 0, 0}, c.at(y.buffer), whole, y.n(), 1, 1, before, c.stream);
    copy_box(c.at(x.buffer), {size, 0, 0}, c.at<std::byte>(y.buffer) + before, whole, y.n(), 1, 1,
             size, c.stream);
  });
}

}  // namespace trainer::backend::cuda
