#include "backend/cuda/lower/batch_norm.h"

#include <algorithm>

#include "backend/cuda/kernels/batch_norm.h"

namespace trainer::backend::cuda {
namespace {

constexpr std::int64_t kFloat = sizeof(float);

bool has_norm_gradient(const graph::Graph& graph, graph::ValueId dy) {
  return std::ranges::any_of(graph.consumers(dy), [&](int user) {
    return std::holds_alternative<graph::BatchNormBackward>(graph.nodes[user].op);
  });
}

// Returns whether the derivative at y is a factor of the gradient of a batch norm, of the same
// type: of the one that ends in the activation, or of the last one of a residual block.
bool reads_mask(const graph::Graph& graph, graph::ValueId y) {
  return std::ranges::any_of(graph.consumers(y), [&](int user) {
    const graph::Node& node = graph.nodes[user];
    if (graph[node.outputs[0]].type != graph[y].type) return false;
    if (std::holds_alternative<graph::BatchNormBackward>(node.op)) {
      return node.inputs.size() > 5 && node.inputs[5] == y;
    }
    return std::holds_alternative<graph::ActivateBackward>(node.op) && node.inputs[0] == y &&
           has_norm_gradient(graph, node.outputs[0]);
  });
}

}  // namespace

void NormGradientPlaces::take_output(graph::ValueId id, Lowering& l) {
  const auto found = l.masks().find(id);
  if (found == l.masks().end()) {
    y = l.value(id, l.result(l.node().outputs[0]).type).buffer;
    return;
  }
  mask = found->second;
  l.use(mask.buffer, mask.bytes);
}

void lower_norm(const graph::Node& norm, BufferId addend, const graph::Activation& activation,
                const Operand& y, const char* implementation, Lowering& l) {
  const Operand x = l.value(norm.inputs[0]);
  const BufferId gamma = l.value(norm.inputs[1]).buffer, beta = l.value(norm.inputs[2]).buffer;
  const BufferId mean = l.result(norm.outputs[1]).buffer;
  const BufferId inverse_std = l.result(norm.outputs[2]).buffer;
  const float epsilon = std::get<graph::BatchNorm>(norm.op).epsilon;
  const std::int64_t rows = x.rows(), channels = x.c();
  CudaCollective* ranks = l.statistics_ranks();
  const std::int64_t size = ranks == nullptr ? 0 : ranks->size();
  const BufferId moments = l.scratch(3 * channels * kFloat);
  const BufferId all_moments = l.scratch(size * 3 * channels * kFloat);
  const BufferId scratch = l.scratch(batch_norm_scratch(rows, channels));
  Lowering::Mask mask;
  if (const graph::ValueId id = l.node().outputs[0];
      has_mask(activation) && reads_mask(l.graph(), id)) {
    mask.bytes = mask_bytes(x.type, rows, channels);
    mask.buffer = l.keep(mask.bytes);
    l.masks()[id] = mask;
  }
  const auto find_statistics = [=](const CallContext& c) {
    if (ranks == nullptr) {
      return channel_statistics(c.at(x.buffer), x.type, rows, channels, epsilon, c.at<float>(mean),
                                c.at<float>(inverse_std), c.at(scratch), c.stream);
    }
    if (c.counted) {
      channel_moments(c.at(x.buffer), x.type, rows, channels, c.at<float>(moments), c.at(scratch),
                      c.stream);
    } else {
      fill_zeros(c.at(moments), static_cast<std::size_t>(3 * channels * kFloat), c.stream);
    }
    ranks->all_gather(c.at<float>(moments), c.at<float>(all_moments), 3 * channels, c.stream);
    combine_moments(c.at<float>(all_moments), size, channels, epsilon, c.at<float>(mean),
                    c.at<float>(inverse_std), c.stream);
  };
  l.add_traffic(x.bytes());  // for the statistics
  l.emit(implementation, [=](const CallContext& c) {
    find_statistics(c);
    normalize_add(c.at(x.buffer), addend < 0 ? nullptr : c.at(addend), c.at<float>(gamma),
                  c.at<float>(beta), c.at<float>(mean), c.at<float>(inverse_std), activation,
                  c.at(y.buffer), mask.buffer < 0 ? nullptr : c.at<std::uint8_t>(mask.buffer),
                  x.type, rows, channels, c.stream);
  });
}

void lower_norm_backward(const graph::Node& norm, BufferId x, const NormGradientPlaces& gradient,
                         const char* implementation, Lowering& l) {
  const Operand dx = l.result(norm.outputs[0]);
  const BufferId dgamma = l.result(norm.outputs[1]).buffer;
  const BufferId dbeta = l.result(norm.outputs[2]).buffer;
  const BufferId gamma = l.value(norm.inputs[2]).buffer;
  const BufferId mean = l.value(norm.inputs[3]).buffer;
  const BufferId inverse_std = l.value(norm.inputs[4]).buffer;
  const std::int64_t rows = dx.rows(), channels = dx.c();
  CudaCollective* ranks = l.statistics_ranks();
  const BufferId sums = l.scratch((2 * channels + 1) * kFloat);
  const BufferId scratch = l.scratch(batch_norm_scratch(rows, channels));
  // The second kernel reads x again, and the gradient or the operands that it is made of.
  const bool kept = gradient.sum >= 0;
  l.add_traffic(dx.bytes() * (kept || gradient.y < 0 ? 2 : 3) + (kept ? 0 : gradient.mask.bytes));
  l.emit(implementation, [=](const CallContext& c) {
    const auto at = [&c](BufferId buffer) { return buffer < 0 ? nullptr : c.at(buffer); };
    // A rank whose samples do not count writes the sum all the same: its later instructions read
    // it. The gradients of the parameters are this rank's share; the update sums those of all
    // ranks.
    NormGradient from{at(gradient.dy), at(gradient.dy2), at(gradient.y),
                      static_cast<const std::uint8_t*>(at(gradient.mask.buffer)), at(gradient.sum)};
    norm_backward_sums(c.at(x), from, c.at<float>(mean), c.at<float>(inverse_std),
                       gradient.activation, dx.type, rows, channels,
                       {c.at<float>(dbeta), c.at<float>(dgamma), c.at<float>(sums), c.counted},
                       c.at(scratch), c.stream);
    if (ranks != nullptr) ranks->all_reduce(c.at<float>(sums), 2 * channels + 1, c.stream);
    // With the sum in memory, its terms and the activation are in it.
    if (kept) from = {from.sum};
    norm_backward(c.at(x), from, c.at<float>(gamma), c.at<float>(mean), c.at<float>(inverse_std),
                  c.at<float>(sums), kept ? graph::Activation{} : gradient.activation,
                  c.at(dx.buffer), dx.type, rows, channels, c.stream);
  });
}

template <>
void lower(const graph::BatchNorm& op, Lowering& l) {
  lower_norm(l.node(), -1, op.activation, l.output(0), "kernel", l);
}

template <>
void lower(const graph::BatchNormBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  NormGradientPlaces gradient{.dy = l.input(1, dx.type).buffer, .activation = op.activation};
  if (!op.activation.linear()) gradient.take_output(l.node().inputs[5], l);
  lower_norm_backward(l.node(), l.input(0, dx.type).buffer, gradient, "kernel", l);
}

template <>
void lower(const graph::UpdateStatistics& op, Lowering& l) {
  l.update_statistics_later(
      {l.input(0).buffer, l.input(1).buffer, l.input(2).buffer, l.input(3).buffer,
       static_cast<std::int32_t>(l.input_shape(0).elements()), op.momentum, op.epsilon});
}

template <>
void lower(const graph::BatchNormInference& op, Lowering& l) {
  const Operand x = l.input(0);
  BufferId values[4];
  for (std::size_t i = 0; i < 4; ++i) values[i] = l.input(i + 1).buffer;
  const Operand y = l.output(0);
  const std::int64_t channels = x.c();
  const BufferId inverse_std = l.scratch(channels * kFloat);
  l.emit("kernel", [=, gamma = values[0], beta = values[1], mean = values[2],
                    variance = values[3]](const CallContext& c) {
    compute_inverse_std(c.at<float>(variance), op.epsilon, c.at<float>(inverse_std), channels,
                        c.stream);
    normalize(c.at(x.buffer), c.at<float>(gamma), c.at<float>(beta), c.at<float>(mean),
              c.at<float>(inverse_std), op.activation, c.at(y.buffer), x.type, x.rows(), channels,
              c.stream);
  });
}

template <>
void lower(const graph::BatchNormInferenceBackward& op, Lowering& l) {
  const Operand dx = l.output(0);
  const BufferId dgamma = l.output(1).buffer, dbeta = l.output(2).buffer;
  const Operand x = l.input(0, dx.type), dy = l.input(1, dx.type);
  const BufferId gamma = l.input(2).buffer, mean = l.input(3).buffer;
  const BufferId variance = l.input(4).buffer;
  const BufferId y = op.activation.linear() ? -1 : l.input(5, dx.type).buffer;
  const std::int64_t rows = dx.rows(), channels = dx.c();
  const BufferId inverse_std = l.scratch(channels * kFloat);
  const BufferId scratch = l.scratch(batch_norm_scratch(rows, channels));
  l.add_traffic(dy.bytes() * (y < 0 ? 1 : 2));  // both kernels read the gradient
  l.emit("kernel", [=](const CallContext& c) {
    const void* output = y < 0 ? nullptr : c.at(y);
    compute_inverse_std(c.at<float>(variance), op.epsilon, c.at<float>(inverse_std), channels,
                        c.stream);
    norm_backward_sums(c.at(x.buffer), {c.at(dy.buffer), nullptr, output}, c.at<float>(mean),
                       c.at<float>(inverse_std), op.activation, dx.type, rows, channels,
                       {c.at<float>(dbeta), c.at<float>(dgamma)}, c.at(scratch), c.stream);
    norm_inference_backward(c.at(dy.buffer), output, c.at<float>(gamma), c.at<float>(inverse_std),
                            op.activation, c.at(dx.buffer), dx.type, rows, channels, c.stream);
  });
}

template <>
void lower(const graph::FoldBatchNorm& op, Lowering& l) {
  const std::size_t norm = op.bias ? 2 : 1;
  const float* kernel = l.persistent(0);
  const float* bias = op.bias ? l.persistent(1) : nullptr;
  const float *gamma = l.persistent(norm), *beta = l.persistent(norm + 1);
  const float *mean = l.persistent(norm + 2), *variance = l.persistent(norm + 3);
  const std::int64_t elements = l.input_shape(0).elements();
  const std::int64_t channels = l.input_shape(norm).elements();
  l.prepare_outputs([=, epsilon = op.epsilon](const std::vector<float*>& to) {
    return [=](cudaStream_t stream) {
      fold_batch_norm(kernel, bias, gamma, beta, mean, variance, epsilon, to[0], to[1], elements,
                      channels, stream);
    };
  });
}

}  // namespace trainer::backend::cuda
