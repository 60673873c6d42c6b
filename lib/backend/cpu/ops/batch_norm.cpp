// Batch normalisation over the whole batch: the lanes, and the ranks if there are several, add up
// their sums before they normalise.
#include <cmath>

#include "backend/cpu/ops/norm_gradient.h"

namespace trainer::backend::cpu {

// Both are defined in partial_norm.cpp.
template <>
void lower(const PartialNorm& group, Lowering& l);
template <>
void lower(const PartialNormBackward& group, Lowering& l);

template <>
void lower(const graph::BatchNorm&, Lowering& l) {
  lower(PartialNorm{&l.node()}, l);
}

template <>
void lower(const graph::BatchNormInference& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked), y = l.output(0, Layout::kBlocked);
  const Channels ch = find_channels(x, l);
  const NormRows rows =
      norm_rows(l.scratch(norm_rows_bytes(ch, NormRows::kForwardRows)), ch, op.activation);
  const MovingStatistics statistics = moving_statistics(l.node(), ch, rows, l);
  const std::int64_t block = l.machine().block;
  with_type(x.type, [&]<class T>() {
    l.emit(l.kernels().name, [=, &kernels = typed<T>(l)](const CallContext& c) {
      statistics.fill(c);
      normalize(c, kernels, c.at<T>(x.buffer), ch, block, rows, c.at<T>(y.buffer));
    });
  });
  activate_unfused(l, op.activation, y);
}

template <>
void lower(const graph::UpdateStatistics& op, Lowering& l) {
  BufferId in[4];
  for (std::size_t i = 0; i < 4; ++i) in[i] = l.input(i, Layout::kPlain).buffer;
  const std::int64_t count = l.input_shape(0).elements();
  const float momentum = op.momentum, epsilon = op.epsilon;
  l.emit("moving averages", [=](const CallContext& c) {
    float *moving_mean = c.at<float>(in[0]), *moving_variance = c.at<float>(in[1]);
    const float *mean = c.at<float>(in[2]), *is = c.at<float>(in[3]);
    for (std::int64_t k = 0; k < count; ++k) {
      const float variance = 1.0f / (is[k] * is[k]) - epsilon;
      moving_mean[k] = moving_mean[k] * momentum + mean[k] * (1 - momentum);
      moving_variance[k] = moving_variance[k] * momentum + variance * (1 - momentum);
    }
  });
}

template <>
void lower(const graph::BatchNormBackward&, Lowering& l) {
  lower(PartialNormBackward{&l.node()}, l);
}

template <>
void lower(const graph::BatchNormInferenceBackward& op, Lowering& l) {
  const Channels ch = find_channels(l.input(0, Layout::kBlocked), l);
  const NormGradient b = norm_gradient(l, op.activation, op.epsilon, false,
                                       {l.scratch(gradient_sums_bytes(ch)),
                                        l.scratch(norm_rows_bytes(ch, NormRows::kBackwardRows))});
  const Operand dx = norm_dx(l);
  const std::int64_t block = l.machine().block;
  with_type(b.x.type, [&]<class T>() {
    l.emit(l.kernels().name, [=, &kernels = typed<T>(l)](const CallContext& c) {
      b.fill_norm(c);
      take_gradient_sums(c, kernels, block, b);
      b.finish_sums(c);
      write_dx(c, kernels, block, b, c.at<T>(dx.buffer));
    });
  });
}

// The fold is computed once per change of the parameters.
template <>
void lower(const graph::FoldBatchNorm& op, Lowering& l) {
  const std::size_t first = op.bias ? 2 : 1;  // of gamma, beta, mean, variance
  const Shape kernel_shape = l.input_shape(0);
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
