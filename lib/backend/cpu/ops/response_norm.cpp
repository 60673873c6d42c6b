// Factors of global response normalization. Activations are blocked, so that the channels of a
// sample's factors lie beside each other, up to a whole number of blocks.
#include <cmath>

#include "backend/cpu/ops/kernel_helpers.h"
#include "backend/cpu/simd/ops/multiply.inl"

namespace trainer::backend::cpu {
namespace {

using simd::MultiplyKernels;

// The extents of a sample: `padded` channels in blocks, of which `channels` are used.
struct Sample {
  std::int64_t channels, padded, block, pixels;
};

Sample find_extents(const Shape& shape, const Lowering& l) {
  const std::int64_t block = l.machine().block;
  return {shape[3], l.machine().count_blocks(shape[3]) * block, block, shape[1] * shape[2]};
}

float find_mean(const float* values, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum / static_cast<float>(count);
}

}  // namespace

template <>
void lower(const graph::ResponseNorm& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  const BufferId gamma = l.input(1, Layout::kPlain).buffer;
  const Operand factors = l.output(0, Layout::kBlocked), norms = l.output(1, Layout::kBlocked);
  const std::int64_t samples = x.shape[0];
  const Sample s = find_extents(x.shape, l);
  const BufferId scratch = l.scratch(s.padded * kFloatBytes);
  emit_kernels<MultiplyKernels>(
      l, x.type,
      [=, epsilon = op.epsilon]<class T>(const CallContext& c, const MultiplyKernels<T>& kernels) {
        const T* in = c.at<T>(x.buffer);
        const float* scale = c.at<float>(gamma);
        T *factor = c.at<T>(factors.buffer), *norm = c.at<T>(norms.buffer);
        float* sums = c.at<float>(scratch);
        for (std::int64_t n = 0; n < samples; ++n, factor += s.padded, norm += s.padded) {
          for (std::int64_t i = 0; i < s.padded; i += s.block, in += s.pixels * s.block) {
            kernels.sum_product_f32(in, in, sums + i, s.pixels, s.block);
          }
          for (std::int64_t i = 0; i < s.padded; ++i) sums[i] = std::sqrt(sums[i]);
          const float mean = find_mean(sums, s.channels) + epsilon;
          for (std::int64_t i = 0; i < s.padded; ++i) {
            assign(norm[i], sums[i]);
            assign(factor[i], i < s.channels ? 1 + scale[i] * sums[i] / mean : 0);
          }
        }
      });
}

template <>
void lower(const graph::ResponseNormBackward& op, Lowering& l) {
  const Operand norms = l.input(0, Layout::kBlocked), dy = l.input(2, Layout::kBlocked);
  const BufferId gamma = l.input(1, Layout::kPlain).buffer;
  const Operand slopes = l.output(0, Layout::kBlocked), products = l.output(1, Layout::kBlocked);
  const std::int64_t samples = norms.shape[0];
  const Sample s = find_extents(norms.shape, l);
  const BufferId scratch = l.scratch(s.padded * kFloatBytes);
  with_type(norms.type, [&]<class T>() {
    l.emit("rows", [=, epsilon = op.epsilon](const CallContext& c) {
      const T *norm = c.at<T>(norms.buffer), *gradient = c.at<T>(dy.buffer);
      const float* scale = c.at<float>(gamma);
      T *slope = c.at<T>(slopes.buffer), *product = c.at<T>(products.buffer);
      float* values = c.at<float>(scratch);
      for (std::int64_t n = 0; n < samples; ++n) {
        for (std::int64_t i = 0; i < s.channels; ++i) values[i] = as_float(norm[i]);
        const float mean = find_mean(values, s.channels) + epsilon;
        for (std::int64_t i = 0; i < s.padded; ++i) {
          assign(product[i], i < s.channels ? as_float(gradient[i]) * values[i] / mean : 0);
          values[i] = i < s.channels ? scale[i] * as_float(gradient[i]) * values[i] / mean : 0;
        }
        const float common = find_mean(values, s.channels);
        for (std::int64_t i = 0; i < s.padded; ++i) {
          const float size = as_float(norm[i]);
          const bool has_slope = i < s.channels && size > 0;
          assign(slope[i],
                 has_slope ? (scale[i] * as_float(gradient[i]) - common) / (mean * size) : 0);
        }
        norm += s.padded, gradient += s.padded, slope += s.padded, product += s.padded;
      }
    });
  });
}

}  // namespace trainer::backend::cpu
