// Batch normalisation over the whole batch: the workers, and the ranks where there are several, add
// their sums up before they normalise.
#include "backend/cpu/ops/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/batch_statistics.h"
#include "backend/cpu/ops/depthwise_chains.h"
#include "backend/cpu/ops/residual_sums.h"
#include "backend/cpu/ops/thread_parts.h"

namespace trainer::backend::cpu {

using simd::Moments;

void pad(const float* from, std::int64_t count, std::int64_t padded, float* to) {
  std::copy(from, from + count, to);
  std::fill(to + count, to + padded, 0.0f);
}

NormBuffers norm_buffers(Lowering& l, const Channels& ch, const graph::Activation& activation) {
  return {l.scratch(ch.padded * 4), l.scratch(ch.padded * 4), l.scratch(ch.padded * 4),
          gate_of(activation), activation.alpha};
}

void reuse(Lowering& l, const NormBuffers& norm) {
  for (const Buffer buffer : {norm.mean, norm.a, norm.b}) l.reuse(buffer);
}

void fill_coefficients(const RunContext& c, const Channels& ch, const float* gamma,
                       const float* beta, const float* mean, const float* inverse_std,
                       const NormBuffers& norm) {
  pad(mean, ch.count, ch.padded, c.at<float>(norm.mean));
  pad(beta, beta != nullptr ? ch.count : 0, ch.padded, c.at<float>(norm.b));
  float* a = c.at<float>(norm.a);
  std::fill(a, a + ch.padded, 0.0f);
  for (std::int64_t k = 0; k < ch.count; ++k) a[k] = gamma[k] * inverse_std[k];
}

const graph::Node* forward_of(const graph::Graph& graph, const graph::Node& backward) {
  if (backward.inputs.size() < 6) return nullptr;
  const int maker = graph.producer(backward.inputs[5]);
  if (maker < 0) return nullptr;
  const graph::Node& node = graph.nodes[static_cast<std::size_t>(maker)];
  const bool is_norm = std::holds_alternative<graph::BatchNorm>(node.op) ||
                       std::holds_alternative<graph::BatchNormInference>(node.op);
  return is_norm && node.inputs[0] == backward.inputs[0] ? &node : nullptr;
}

void lower(const graph::BatchNorm& op, Lowering& l) {
  DepthwiseChains& chains = l.depthwise_chains();
  const Operand x = l.input(0, Layout::kBlocked);
  const Channels ch = channels_of(x, l);
  const auto taken = chains.moments.find(l.node().inputs[0]);
  const bool has_moments = taken != chains.moments.end();
  const auto moments_bytes = ch.padded * static_cast<std::int64_t>(sizeof(Moments));
  const DepthwiseChains::Moments moments =
      has_moments ? taken->second
                  : DepthwiseChains::Moments{l.scratch(moments_bytes), l.scratch(ch.padded * 4)};
  l.reuse(moments.moments);
  l.reuse(moments.shift);
  const Buffer gamma = l.input(1, Layout::kPlain).buffer, beta = l.input(2, Layout::kPlain).buffer;
  const graph::ValueId z = l.node().outputs[0];
  const bool in_chain = chains.skips_output(z);
  const bool skips = in_chain || l.residual_sums().skips_output(z);
  const Operand y = skips ? x : l.output(0, Layout::kBlocked);
  const Buffer mean = l.output(1, Layout::kPlain).buffer;
  const Buffer inverse_std = l.output(2, Layout::kPlain).buffer;
  const NormBuffers norm = norm_buffers(l, ch, op.activation);
  const Buffer padded_std = in_chain ? l.scratch(ch.padded * 4) : -1;
  if (in_chain)
    chains.inputs[z] = {x, norm, padded_std};
  else if (skips)
    l.residual_sums().inputs[z] = {x, norm};
  const float epsilon = op.epsilon;
  const std::int64_t block = l.machine().block;
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, &kernels = typed<T>(l)](const RunContext& c) {
      const T* in = c.at<T>(x.buffer);
      if (!has_moments) {
        // The first pixel's values as shift: large means then cost no precision.
        for (std::int64_t k = 0; k < ch.shape.blocks; ++k) {
          kernels.to_f32(in + k * ch.shape.pixels * block, c.at<float>(moments.shift) + k * block,
                         block);
        }
        std::memset(c.at<void>(moments.moments), 0, static_cast<std::size_t>(moments_bytes));
        over_channels(c, ch.shape, block, [&](const PlanePart& part) {
          kernels.moments(part.shape, in + part.element, c.at<float>(moments.shift) + part.channel,
                          c.at<Moments>(moments.moments) + part.channel);
        });
      }
      combine_moments(c, {c.counted, c.at<float>(moments.shift), c.at<Moments>(moments.moments)},
                      ch, c.at<float>(mean), c.at<float>(inverse_std), epsilon);
      fill_coefficients(c, ch, c.at<float>(gamma), c.at<float>(beta), c.at<float>(mean),
                        c.at<float>(inverse_std), norm);
      if (in_chain) pad(c.at<float>(inverse_std), ch.count, ch.padded, c.at<float>(padded_std));
      if (skips) return;
      over_planes(c, ch.shape, block, [&](const PlanePart& part) {
        kernels.scale_shift(part.shape, in + part.element, norm.at(c, part.channel),
                            c.at<T>(y.buffer) + part.element);
      });
    });
  });
  if (!has_gate(op.activation)) {
    l.reuse(y.buffer);
    activate(l, op.activation, y, y);
  }
}

void lower(const graph::BatchNormInference& op, Lowering& l) {
  const Operand x = l.input(0, Layout::kBlocked);
  Buffer variables[4];
  for (std::size_t i = 0; i < 4; ++i) variables[i] = l.input(i + 1, Layout::kPlain).buffer;
  const graph::ValueId z = l.node().outputs[0];
  const bool skips = l.residual_sums().skips_output(z);
  const Operand y = skips ? x : l.output(0, Layout::kBlocked);
  const Channels ch = channels_of(x, l);
  const NormBuffers norm = norm_buffers(l, ch, op.activation);
  if (skips) l.residual_sums().inputs[z] = {x, norm};
  const Buffer inverse_std = l.scratch(ch.padded * 4);
  const float epsilon = op.epsilon;
  const std::int64_t block = l.machine().block;
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, run = typed<T>(l).scale_shift](const RunContext& c) {
      const float* variance = c.at<float>(variables[3]);
      float* is = c.at<float>(inverse_std);
      for (std::int64_t k = 0; k < ch.count; ++k) is[k] = 1.0f / std::sqrt(variance[k] + epsilon);
      fill_coefficients(c, ch, c.at<float>(variables[0]), c.at<float>(variables[1]),
                        c.at<float>(variables[2]), is, norm);
      if (skips) return;
      over_planes(c, ch.shape, block, [&](const PlanePart& part) {
        run(part.shape, c.at<T>(x.buffer) + part.element, norm.at(c, part.channel),
            c.at<T>(y.buffer) + part.element);
      });
    });
  });
  if (!has_gate(op.activation)) {
    l.reuse(y.buffer);
    activate(l, op.activation, y, y);
  }
}

void lower(const graph::UpdateStatistics& op, Lowering& l) {
  Buffer in[4];
  for (std::size_t i = 0; i < 4; ++i) in[i] = l.input(i, Layout::kPlain).buffer;
  const std::int64_t count = l.shape_of_input(0).elements();
  const float momentum = op.momentum, epsilon = op.epsilon;
  l.step("moving averages", [=](const RunContext& c) {
    float *moving_mean = c.at<float>(in[0]), *moving_variance = c.at<float>(in[1]);
    const float *mean = c.at<float>(in[2]), *is = c.at<float>(in[3]);
    for (std::int64_t k = 0; k < count; ++k) {
      const float variance = 1.0f / (is[k] * is[k]) - epsilon;
      moving_mean[k] = moving_mean[k] * momentum + mean[k] * (1 - momentum);
      moving_variance[k] = moving_variance[k] * momentum + variance * (1 - momentum);
    }
  });
}

}  // namespace trainer::backend::cpu
