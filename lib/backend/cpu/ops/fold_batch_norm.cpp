// Batch norms of inference folded into the layer before them, once, when parameters are bound.
#include <cmath>

#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

void lower(const graph::FoldBatchNorm& op, Lowering& l) {
  const std::size_t first = op.bias ? 2 : 1;  // of gamma, beta, mean, variance
  const Shape kernel_shape = l.shape_of_input(0);
  const std::int64_t channels = kernel_shape[kernel_shape.rank() - 1];
  const std::int64_t rows = kernel_shape.elements() / channels;
  const float* kernel = l.persistent(0);
  const float* bias = op.bias ? l.persistent(1) : nullptr;
  const float *gamma = l.persistent(first), *beta = l.persistent(first + 1),
              *mean = l.persistent(first + 2), *variance = l.persistent(first + 3);
  const double epsilon = static_cast<double>(op.epsilon);
  const auto scale = [=](std::int64_t k) {
    return static_cast<double>(gamma[k]) / std::sqrt(static_cast<double>(variance[k]) + epsilon);
  };
  l.prepare_output(0, [=](float* to) {
    return [=] {
      for (std::int64_t k = 0; k < channels; ++k) {
        const double s = scale(k);
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t i = r * channels + k;
          to[i] = static_cast<float>(static_cast<double>(kernel[i]) * s);
        }
      }
    };
  });
  l.prepare_output(1, [=](float* to) {
    return [=] {
      for (std::int64_t k = 0; k < channels; ++k) {
        const double b = bias != nullptr ? static_cast<double>(bias[k]) : 0.0;
        to[k] = static_cast<float>((b - static_cast<double>(mean[k])) * scale(k) +
                                   static_cast<double>(beta[k]));
      }
    };
  });
}

}  // namespace trainer::backend::cpu
