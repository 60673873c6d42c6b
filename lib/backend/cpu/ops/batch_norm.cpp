// Batch normalisation over the whole batch: the workers, and the ranks where there are several, add
// their sums up before they normalise.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/ops/depthwise_chains.h"

namespace trainer::backend::cpu {
namespace {

using simd::GradientSums;
using simd::Moments;

// What a worker shows the others: the shift its moments are taken about, and the moments.
struct WorkerMoments {
  std::int64_t samples;
  const float* shift;
  const Moments* moments;
};
// The same for the sums of the backward form.
struct WorkerSums {
  std::int64_t samples;
  const GradientSums* sums;
};

// Calls use(worker -> what it shows) when all have written theirs, and returns when all have read
// them. All workers show the same type.
template <class Shown, class Use>
void with_all_workers(const RunContext& c, Shown& mine, const Use& use) {
  (*c.exchange)[static_cast<std::size_t>(c.worker)] = &mine;
  c.barrier->wait(c.workers);
  use([&](int worker) -> const Shown& {
    return *static_cast<const Shown*>((*c.exchange)[static_cast<std::size_t>(worker)]);
  });
  c.barrier->wait(c.workers);
}

// Count, mean and sum of squared distances from the mean; Chan et al.'s pairwise update.
struct Spread {
  double count = 0, mean = 0, square = 0;

  void add(const Spread& other) {
    if (other.count == 0) return;
    const double delta = other.mean - mean, all = count + other.count;
    square += other.square + delta * delta * count * other.count / all;
    mean += delta * other.count / all;
    count = all;
  }
};

// One channel over all workers, in worker order.
template <class WorkerMomentsOf>
Spread over_workers(const WorkerMomentsOf& worker_moments, int workers, std::int64_t k,
                    std::int64_t pixels) {
  Spread all;
  for (int worker = 0; worker < workers; ++worker) {
    const WorkerMoments& own = worker_moments(worker);
    if (own.samples == 0) continue;
    const double n = static_cast<double>(own.samples * pixels);
    const double d = own.moments[k].sum / n;
    all.add({n, static_cast<double>(own.shift[k]) + d, own.moments[k].square - n * d * d});
  }
  return all;
}

// Calls use(numbers) with what fill(numbers) wrote, `count` of them, summed over the ranks; fill
// runs on worker 0, whose time before it was of `phase`.
template <class Fill, class Use>
void over_ranks(const RunContext& c, PhaseClock::Phase phase, std::size_t count, const Fill& fill,
                const Use& use) {
  std::vector<double>& numbers = *c.numbers;
  if (c.worker == 0) {
    if (numbers.size() < count) numbers.resize(count);
    if (c.clock != nullptr) c.clock->lap(phase);
    fill(numbers);
    if (c.clock != nullptr) c.clock->lap(PhaseClock::Phase::kAllReduce);
  }
  c.barrier->wait(c.workers);
  use(numbers);
}

// The spreads of all ranks, in rank order, so that all get the same bits.
void gather_spreads(const RunContext& c, std::vector<double>& numbers, std::size_t own) {
  const auto ranks = static_cast<std::size_t>(c.statistics->size());
  const std::span<double> mine(numbers.data(), own), all(numbers.data() + own, own * ranks);
  c.statistics->all_gather(std::as_bytes(mine), std::as_writable_bytes(all));
  for (std::size_t i = 0; i < own; i += 3) {
    Spread spread;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* from = all.data() + rank * own + i;
      spread.add({from[0], from[1], from[2]});
    }
    mine[i] = spread.count;
    mine[i + 1] = spread.mean;
    mine[i + 2] = spread.square;
  }
}

// Mean and biased variance of each channel over all workers and ranks.
void combine(const RunContext& c, WorkerMoments& mine, const Channels& ch, float* mean,
             float* inverse_std, float epsilon) {
  const auto take = [&](std::int64_t k, const Spread& spread) {
    const double variance = std::max(spread.square / spread.count, 0.0);
    mean[k] = static_cast<float>(spread.mean);
    inverse_std[k] = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(epsilon)));
  };
  with_all_workers(c, mine, [&](const auto& worker_moments) {
    if (c.statistics == nullptr) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        take(k, over_workers(worker_moments, c.workers, k, ch.shape.pixels));
      }
      return;
    }
    const auto own = static_cast<std::size_t>(3 * ch.count);
    const auto fill = [&](std::vector<double>& numbers) {
      for (std::int64_t k = 0; k < ch.count; ++k) {
        const Spread spread = over_workers(worker_moments, c.workers, k, ch.shape.pixels);
        double* to = numbers.data() + 3 * k;
        to[0] = spread.count;
        to[1] = spread.mean;
        to[2] = spread.square;
      }
      gather_spreads(c, numbers, own);
    };
    over_ranks(c, PhaseClock::Phase::kForward,
               own * static_cast<std::size_t>(c.statistics->size() + 1), fill,
               [&](const std::vector<double>& numbers) {
                 for (std::int64_t k = 0; k < ch.count; ++k) {
                   const double* from = numbers.data() + 3 * k;
                   take(k, {from[0], from[1], from[2]});
                 }
               });
  });
}

// The sums that the backward form needs, over all workers and ranks.
template <class WorkerSumsOf, class Take>
void combine_sums(const RunContext& c, const WorkerSumsOf& worker_sums, std::int64_t channels,
                  const Take& take) {
  const auto sums_of = [&](std::int64_t k) {
    GradientSums sums{0, 0};
    for (int worker = 0; worker < c.workers; ++worker) {
      if (worker_sums(worker).samples == 0) continue;
      sums.sum_g += worker_sums(worker).sums[k].sum_g;
      sums.sum_g_xhat += worker_sums(worker).sums[k].sum_g_xhat;
    }
    return sums;
  };
  if (c.statistics == nullptr) {
    for (std::int64_t k = 0; k < channels; ++k) take(k, sums_of(k));
    return;
  }
  const auto fill = [&](std::vector<double>& numbers) {
    for (std::int64_t k = 0; k < channels; ++k) {
      const GradientSums sums = sums_of(k);
      numbers[static_cast<std::size_t>(2 * k)] = sums.sum_g;
      numbers[static_cast<std::size_t>(2 * k + 1)] = sums.sum_g_xhat;
    }
    c.statistics->all_reduce(std::span(numbers.data(), static_cast<std::size_t>(2 * channels)));
  };
  over_ranks(c, PhaseClock::Phase::kBackward, static_cast<std::size_t>(2 * channels), fill,
             [&](const std::vector<double>& numbers) {
               for (std::int64_t k = 0; k < channels; ++k) {
                 const double* from = numbers.data() + 2 * k;
                 take(k, GradientSums{from[0], from[1]});
               }
             });
}

void pad(const float* from, std::int64_t count, std::int64_t padded, float* to) {
  std::copy(from, from + count, to);
  std::fill(to + count, to + padded, 0.0f);
}

Affine affine_rows(Lowering& l, const Channels& ch, const graph::Activation& activation) {
  return {l.scratch(ch.padded * 4), l.scratch(ch.padded * 4), l.scratch(ch.padded * 4),
          gate_of(activation), activation.alpha};
}

void fill_affine(const RunContext& c, const Channels& ch, const float* gamma, const float* beta,
                 const float* mean, const float* inverse_std, const Affine& rows) {
  pad(mean, ch.count, ch.padded, c.at<float>(rows.mean));
  pad(beta, ch.count, ch.padded, c.at<float>(rows.b));
  float* a = c.at<float>(rows.a);
  std::fill(a, a + ch.padded, 0.0f);
  for (std::int64_t k = 0; k < ch.count; ++k) a[k] = gamma[k] * inverse_std[k];
}

}  // namespace

const graph::Node* forward_of(const graph::Graph& graph, const graph::Node& backward) {
  const int maker = graph.producer(backward.inputs[5]);
  if (maker < 0) return nullptr;
  const graph::Node& node = graph.nodes[static_cast<std::size_t>(maker)];
  const bool is_norm = std::holds_alternative<graph::BatchNorm>(node.op) ||
                       std::holds_alternative<graph::BatchNormInference>(node.op);
  return is_norm && node.inputs[0] == backward.inputs[0] ? &node : nullptr;
}

namespace {

// dy before the activation when our kernels have no gate for it; dy itself otherwise.
Operand ungated(Lowering& l, const graph::Activation& activation, std::size_t y_input,
                const Operand& dy) {
  if (has_gate(activation)) return dy;
  Operand g = dy;
  g.buffer = l.scratch(l.padded_elements(dy.shape, dy.layout) *
                       static_cast<std::int64_t>(size_of(dy.type)));
  activate_backward(l, activation, l.input(y_input, dy.layout), dy, g);
  l.reuse(g.buffer);
  return g;
}

}  // namespace

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
  const bool leaves = chains.leaves_output(z);
  const Operand y = leaves ? x : l.output(0, Layout::kBlocked);
  const Buffer mean = l.output(1, Layout::kPlain).buffer;
  const Buffer inverse_std = l.output(2, Layout::kPlain).buffer;
  const Affine rows = affine_rows(l, ch, op.activation);
  const Buffer padded_std = l.scratch(ch.padded * 4);
  if (leaves) chains.inputs[z] = {x, rows, padded_std};
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
        kernels.moments(ch.shape, in, c.at<float>(moments.shift), c.at<Moments>(moments.moments));
      }
      WorkerMoments mine{c.counted, c.at<float>(moments.shift), c.at<Moments>(moments.moments)};
      combine(c, mine, ch, c.at<float>(mean), c.at<float>(inverse_std), epsilon);
      pad(c.at<float>(inverse_std), ch.count, ch.padded, c.at<float>(padded_std));
      fill_affine(c, ch, c.at<float>(gamma), c.at<float>(beta), c.at<float>(mean),
                  c.at<float>(inverse_std), rows);
      if (!leaves) kernels.scale_shift(ch.shape, in, rows.at(c), c.at<T>(y.buffer));
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
  const Operand y = l.output(0, Layout::kBlocked);
  const Channels ch = channels_of(x, l);
  const Affine rows = affine_rows(l, ch, op.activation);
  const Buffer inverse_std = l.scratch(ch.padded * 4);
  const float epsilon = op.epsilon;
  with_type(x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, run = typed<T>(l).scale_shift](const RunContext& c) {
      const float* variance = c.at<float>(variables[3]);
      float* is = c.at<float>(inverse_std);
      for (std::int64_t k = 0; k < ch.count; ++k) is[k] = 1.0f / std::sqrt(variance[k] + epsilon);
      fill_affine(c, ch, c.at<float>(variables[0]), c.at<float>(variables[1]),
                  c.at<float>(variables[2]), is, rows);
      run(ch.shape, c.at<T>(x.buffer), rows.at(c), c.at<T>(y.buffer));
    });
  });
  if (!has_gate(op.activation)) {
    l.reuse(y.buffer);
    activate(l, op.activation, y, y);
  }
}

namespace {

// What a backward form reads and writes.
struct Backward {
  Operand x, dy, dx;
  Buffer y = -1;              // for the gate; -1: not needed, or computed again from x
  Buffer beta = -1;           // for the latter
  Buffer gamma, mean, scale;  // scale: inverse_std, or the variance
  Buffer dgamma, dbeta;
  Channels channels;
  Buffer sums, inverse_std, p, q, r;  // padded
  Affine rows;
  float epsilon;
  bool training;
  bool has_sums = false;  // taken by the step that made dy, which is before the gate already
  bool leaves_dx = false;
};

Backward backward_operands(Lowering& l, const graph::Activation& fused, float epsilon,
                           bool training) {
  Backward b;
  b.epsilon = epsilon;
  b.training = training;
  b.x = l.input(0, Layout::kBlocked);
  const Operand dy = l.input(1, Layout::kBlocked);
  const auto sums = l.depthwise_chains().sums.find(l.node().inputs[1]);
  b.has_sums = sums != l.depthwise_chains().sums.end();
  const graph::Activation activation = b.has_sums ? graph::Activation{} : fused;
  b.dy = ungated(l, activation, 5, dy);
  b.gamma = l.input(2, Layout::kPlain).buffer;
  b.mean = l.input(3, Layout::kPlain).buffer;
  b.scale = l.input(4, Layout::kPlain).buffer;
  if (gate_of(activation) != simd::Gate::kNone) {
    if (const graph::Node* forward = forward_of(l.graph(), l.node())) {
      b.beta = l.value(forward->inputs[2], Layout::kPlain).buffer;
    } else {
      b.y = l.input(5, Layout::kBlocked).buffer;
    }
  }
  l.reuse(b.x.buffer);
  b.leaves_dx = l.depthwise_chains().leaves_gradient(l.node().outputs[0]);
  if (!b.leaves_dx) {
    if (l.only_reader(1)) l.alias_output(0, dy);
    b.dx = l.output(0, Layout::kBlocked);
  }
  b.dgamma = l.output(1, Layout::kPlain).buffer;
  b.dbeta = l.output(2, Layout::kPlain).buffer;
  b.channels = channels_of(b.x, l);
  const std::int64_t padded = b.channels.padded;
  b.sums = b.has_sums ? sums->second
                      : l.scratch(padded * static_cast<std::int64_t>(sizeof(GradientSums)));
  l.reuse(b.sums);
  for (Buffer* row : {&b.inverse_std, &b.p, &b.q, &b.r}) *row = l.scratch(padded * 4);
  b.rows = affine_rows(l, b.channels, activation);
  if (b.leaves_dx) {
    l.depthwise_chains().left_gradients[l.node().outputs[0]] = {b.x, b.dy, b.rows, b.p, b.q, b.r};
  }
  return b;
}

void fill_rows(const RunContext& c, const Backward& b) {
  const Channels& ch = b.channels;
  float* is = c.at<float>(b.inverse_std);
  pad(c.at<float>(b.scale), ch.count, ch.padded, is);
  if (!b.training) {
    for (std::int64_t k = 0; k < ch.count; ++k) is[k] = 1.0f / std::sqrt(is[k] + b.epsilon);
  }
  // Where nothing is computed again any shift will do.
  const Buffer beta = b.beta >= 0 ? b.beta : b.gamma;
  fill_affine(c, ch, c.at<float>(b.gamma), c.at<float>(beta), c.at<float>(b.mean), is, b.rows);
}

// This worker's share; the update phase adds the workers up.
void write_parameter_gradients(const RunContext& c, const Backward& b) {
  const GradientSums* own = c.at<GradientSums>(b.sums);
  for (std::int64_t k = 0; k < b.channels.count; ++k) {
    c.at<float>(b.dgamma)[k] = static_cast<float>(own[k].sum_g_xhat);
    c.at<float>(b.dbeta)[k] = static_cast<float>(own[k].sum_g);
  }
}

// In training form the mean and the variance depend on x, so dx has two more terms: dx = gamma * is
// * (g - sum(g) / n - xhat * sum(g * xhat) / n), as p * g + q * (x - mean) + r.
void fill_gradient_rows(const RunContext& c, const Backward& b) {
  const Channels& ch = b.channels;
  float *p = c.at<float>(b.p), *q = c.at<float>(b.q), *r = c.at<float>(b.r);
  const float *a = c.at<float>(b.rows.a), *is = c.at<float>(b.inverse_std);
  std::copy(a, a + ch.padded, p);
  std::fill(q, q + ch.padded, 0.0f);
  std::fill(r, r + ch.padded, 0.0f);
  if (!b.training) return;
  WorkerSums mine{c.counted, c.at<GradientSums>(b.sums)};
  with_all_workers(c, mine, [&](const auto& worker_sums) {
    const double n = static_cast<double>(c.all_samples * ch.shape.pixels);
    combine_sums(c, worker_sums, ch.count, [&](std::int64_t k, const GradientSums& all) {
      const double slope =
          static_cast<double>(p[k]) * static_cast<double>(is[k]) * all.sum_g_xhat / n;
      q[k] = static_cast<float>(-slope);
      r[k] = static_cast<float>(-static_cast<double>(p[k]) * all.sum_g / n);
    });
  });
}

void lower_backward(Lowering& l, const graph::Activation& activation, float epsilon,
                    bool training) {
  const Backward b = backward_operands(l, activation, epsilon, training);
  const auto sums_bytes = static_cast<std::size_t>(b.channels.padded) * sizeof(GradientSums);
  with_type(b.x.type, [&]<class T>() {
    l.step(l.kernels().name, [=, &kernels = typed<T>(l)](const RunContext& c) {
      const T *x = c.at<T>(b.x.buffer), *dy = c.at<T>(b.dy.buffer);
      const T* y = b.y >= 0 ? c.at<T>(b.y) : nullptr;
      fill_rows(c, b);
      if (!b.has_sums) {
        std::memset(c.at<void>(b.sums), 0, sums_bytes);
        kernels.norm_sums(b.channels.shape, x, dy, y, b.rows.at(c), c.at<float>(b.inverse_std),
                          c.at<GradientSums>(b.sums));
      }
      write_parameter_gradients(c, b);
      fill_gradient_rows(c, b);
      if (b.leaves_dx) return;
      kernels.norm_backward(b.channels.shape, x, dy, y, b.rows.at(c),
                            {c.at<float>(b.p), c.at<float>(b.q), c.at<float>(b.r)},
                            c.at<T>(b.dx.buffer));
    });
  });
}

}  // namespace

void lower(const graph::BatchNormBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, true);
}

void lower(const graph::BatchNormInferenceBackward& op, Lowering& l) {
  lower_backward(l, op.activation, op.epsilon, false);
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
