#include "backend/cpu/simd/ops/preprocess.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

template <>
void lower(const graph::Preprocess& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlanar);
  const std::int64_t channels = x.c(), pixels = x.shape.elements() / (x.n() * channels);
  std::vector<float> a, b;
  for (std::int64_t c = 0; c < channels; ++c) {
    a.push_back(op.scale / op.std[c]);
    b.push_back(-op.mean[c] / op.std[c]);
  }
  const bool reverse = op.reverse_channels;
  emit_kernels<simd::PreprocessKernels>(
      l, y.type, [=]<class T>(const CallContext& c, const simd::PreprocessKernels<T>& kernels) {
        over_parts(c, c.samples, [&](std::int64_t first, std::int64_t count, int) {
          const std::int64_t at = first * pixels * channels;
          T* to = c.at<T>(y.buffer) + at;
          if (x.type == DType::kUInt8) {
            kernels.from_u8(c.at<std::uint8_t>(x.buffer) + at, to, count, pixels, channels, reverse,
                            a.data(), b.data());
          } else {
            kernels.from_f32(c.at<float>(x.buffer) + at, to, count, pixels, channels, reverse,
                             a.data(), b.data());
          }
        });
      });
}

}  // namespace trainer::backend::cpu
