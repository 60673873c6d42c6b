#include "backend/cpu/simd/ops/add.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

using simd::AddKernels;

template <>
void lower(const graph::Add&, Lowering& l) {
  const std::size_t count = l.input_count();
  Layout layout = l.input(0).layout;
  if (layout == Layout::kPlanar) layout = Layout::kBlocked;
  std::vector<BufferId> inputs;
  Operand x;
  for (std::size_t i = 0; i < count; ++i) {
    x = l.input(i, layout);
    inputs.push_back(x.buffer);
  }
  const Operand y = l.output(0, layout);
  const std::int64_t elements = l.padded_elements(y.shape, layout);
  emit_kernels<AddKernels>(
      l, x.type, [=]<class T>(const CallContext& c, const AddKernels<T>& kernels) {
        over_parts(c, elements, [&](std::int64_t first, std::int64_t part, int) {
          const T* from[64];
          T* to = c.at<T>(y.buffer) + first;
          // More inputs than fit are added to the sum so far.
          for (std::size_t done = 0; done < count;) {
            std::size_t n = 0;
            if (done > 0) from[n++] = to;
            while (n < std::size(from) && done < count) from[n++] = c.at<T>(inputs[done++]) + first;
            kernels.add(to, from, static_cast<int>(n), part);
          }
        });
      });
}

template <>
void lower(const graph::AddBias&, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain), bias = l.input(1, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t width = bias.shape.elements(), rows = x.shape.elements() / width;
  emit_kernels<AddKernels>(l, x.type,
                           [=]<class T>(const CallContext& c, const AddKernels<T>& kernels) {
                             kernels.add_bias(c.at<T>(x.buffer), c.at<float>(bias.buffer),
                                              c.at<T>(y.buffer), rows, width);
                           });
}

}  // namespace trainer::backend::cpu
