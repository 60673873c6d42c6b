#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::PrependTokens&, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain), first = l.input(1, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t before = first.shape.elements(), size = x.shape.elements() / x.n();
  with_type(y.type, [&]<class T>() {
    l.emit("copy", [=](const CallContext& c) {
      over_parts(c, x.n(), [&](std::int64_t sample, std::int64_t count, int) {
        for (const std::int64_t end = sample + count; sample < end; ++sample) {
          T* to = c.at<T>(y.buffer) + sample * (before + size);
          for (std::int64_t i = 0; i < before; ++i) assign(to[i], c.at<float>(first.buffer)[i]);
          std::copy_n(c.at<T>(x.buffer) + sample * size, size, to + before);
        }
      });
    });
  });
}

}  // namespace trainer::backend::cpu
