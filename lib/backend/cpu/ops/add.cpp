#include "backend/cpu/simd/ops/add.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

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
  with_type(x.type, [&]<class T>() {
    l.emit(l.kernels().name,
           [=, run = find_kernels<simd::AddKernels<T>>(l).add](const CallContext& c) {
             over_parts(c, elements, [&](std::int64_t first, std::int64_t part, int) {
               const T* from[64];
               T* to = c.at<T>(y.buffer) + first;
               // More inputs than fit are added to the sum so far.
               for (std::size_t done = 0; done < count;) {
                 std::size_t n = 0;
                 if (done > 0) from[n++] = to;
                 while (n < std::size(from) && done < count)
                   from[n++] = c.at<T>(inputs[done++]) + first;
                 run(to, from, static_cast<int>(n), part);
               }
             });
           });
  });
}

template <>
void lower(const graph::AddBias&, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain), bias = l.input(1, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const std::int64_t width = bias.shape.elements(), rows = x.shape.elements() / width;
  with_type(x.type, [&]<class T>() {
    l.emit(l.kernels().name,
           [=, run = find_kernels<simd::AddKernels<T>>(l).add_bias](const CallContext& c) {
             run(c.at<T>(x.buffer), c.at<float>(bias.buffer), c.at<T>(y.buffer), rows, width);
           });
  });
}

}  // namespace trainer::backend::cpu
