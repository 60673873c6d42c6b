#include "backend/cpu/simd/ops/attention.inl"

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {
namespace {

using simd::AttentionKernels;
using simd::AttentionShape;

// The first element of a head of a sample in y, in qkv and in the log-sums.
struct Head {
  std::int64_t y, qkv, token;
};

AttentionShape attention_shape(const Shape& y, std::int64_t heads) {
  return {y[1], heads, y[2] / heads};
}

// Adds an instruction that calls run(kernels, context, head, scratch) for each head of each sample,
// on the threads of the lane. `scratch` is a function of the kernels.
template <class Run>
void emit_for_heads(Lowering& l, DType type, const AttentionShape& s,
                    std::int64_t (*AttentionKernels<float>::*scratch)(const AttentionShape&),
                    const Run& run) {
  const auto count_floats = simd::find_kernels<AttentionKernels<float>>(l.kernels()).*scratch;
  const std::int64_t floats = count_floats(s), heads = l.samples() * s.heads;
  const BufferId buffer = l.scratch(floats * kFloatBytes * l.machine().threads);
  emit_kernels<AttentionKernels>(
      l, type, [=]<class T>(const CallContext& c, const AttentionKernels<T>& kernels) {
        over_parts(c, heads, [&](std::int64_t first, std::int64_t count, int thread) {
          for (std::int64_t i = first; i < first + count; ++i) {
            const std::int64_t sample = i / s.heads * s.tokens * s.heads, head = i % s.heads;
            run(kernels, c,
                Head{(sample + head) * s.channels, (3 * sample + head) * s.channels, i * s.tokens},
                c.at<float>(buffer) + thread * floats);
          }
        });
      });
}

}  // namespace

template <>
void lower(const graph::Attention& op, Lowering& l) {
  const Operand qkv = l.input(0, Layout::kPlain);
  const Operand y = l.output(0, Layout::kPlain);
  const BufferId log_sums = op.log_sums ? l.output(1, Layout::kPlain).buffer : -1;
  const AttentionShape shape = attention_shape(y.shape, op.heads);
  emit_for_heads(l, y.type, shape, &AttentionKernels<float>::forward_scratch,
                 [=]<class T>(const AttentionKernels<T>& kernels, const CallContext& c,
                              const Head& head, float* scratch) {
                   float* sums = log_sums < 0 ? nullptr : c.at<float>(log_sums) + head.token;
                   kernels.forward(shape, c.at<T>(qkv.buffer) + head.qkv,
                                   c.at<T>(y.buffer) + head.y, sums, scratch);
                 });
}

template <>
void lower(const graph::AttentionBackward& op, Lowering& l) {
  const Operand qkv = l.input(0, Layout::kPlain);
  const BufferId log_sums = l.input(2, Layout::kPlain).buffer;
  const Operand dy = l.input(3, Layout::kPlain), dqkv = l.output(0, Layout::kPlain);
  const AttentionShape shape = attention_shape(dy.shape, op.heads);
  emit_for_heads(l, dqkv.type, shape, &AttentionKernels<float>::backward_scratch,
                 [=]<class T>(const AttentionKernels<T>& kernels, const CallContext& c,
                              const Head& head, float* scratch) {
                   kernels.backward(shape, c.at<T>(qkv.buffer) + head.qkv,
                                    c.at<float>(log_sums) + head.token, c.at<T>(dy.buffer) + head.y,
                                    c.at<T>(dqkv.buffer) + head.qkv, scratch);
                 });
}

}  // namespace trainer::backend::cpu
