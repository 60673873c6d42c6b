#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/rows.cuh"

namespace trainer::backend::cuda {
namespace {

// The targets of a row, from a class index or from numbers, before they are smoothed.
struct RowTargets {
  const float* numbers;  // null: the index counts
  std::int32_t index;

  __device__ float at(std::int64_t n, std::int64_t i) const {
    if (numbers != nullptr) return numbers[i];
    if (n == 1) return static_cast<float>(index);
    return index == i ? 1.0f : 0.0f;
  }
};

struct Targets {
  const std::int32_t* index;
  const float* numbers;
  std::int64_t stride;  // numbers a row: n, and the sample's weight where it has one

  __device__ RowTargets row(std::int64_t i) const {
    if (numbers != nullptr) return {numbers + i * stride, 0};
    return {nullptr, index[i]};
  }
};

// graph::Focal; gamma and alpha have no meaning when it is off.
struct LossFocal {
  bool on;
  float gamma, alpha;
};

template <class T, class G>
struct LossRow {
  const T* x;
  G* dx;  // null: not wanted
  RowTargets targets;
  std::int64_t n;
  float smoothing, scale;
  LossFocal focal;
};

// With log p = l: (1 - p)^gamma l, and its derivative by log p, which is finite where p is 1.
struct FocalTerm {
  float value, slope;
};
__device__ inline FocalTerm focal_term(float l, float gamma) {
  const float missed = -expm1f(l);
  const float factor = powf(missed, gamma);
  if (missed <= 0) return {factor * l, -factor};
  return {factor * l, gamma * expf(l) * (factor / missed) * l - factor};
}

// -alpha sum t (1 - p)^gamma log p; d/dx_j = alpha (t_j h_j - p_j sum(t h)), h_j being the
// derivative of -(1 - p)^gamma log p by log p.
template <class T, class G, class Target>
__device__ inline float softmax_focal(const LossRow<T, G>& r, const Target& target, float log_sum,
                                      float* shared) {
  const float gamma = r.focal.gamma, alpha = r.focal.alpha;
  const auto term = [&](std::int64_t i) { return focal_term(to_float(r.x[i]) - log_sum, gamma); };
  const float loss =
      sum_of_row(r.n, shared, [&](std::int64_t i) { return -target(i) * term(i).value; });
  const float pull =
      sum_of_row(r.n, shared, [&](std::int64_t i) { return target(i) * term(i).slope; });
  if (r.dx != nullptr) {
    for_row(r.n, [&](std::int64_t i) {
      const float p = expf(to_float(r.x[i]) - log_sum);
      assign(r.dx[i], alpha * (target(i) * term(i).slope - p * pull) * r.scale);
    });
  }
  return alpha * loss;
}

// w q^gamma b with the cross-entropy b and q = t (1 - p) + (1 - t) p, the share that p misses t by;
// d/dx = w (gamma q^(gamma - 1) b p (1 - p) (1 - 2 t) + q^gamma (p - t)).
struct BinaryFocal {
  float loss, gradient;
};
__device__ inline BinaryFocal binary_focal(float x, float target, float cross_entropy,
                                           const LossFocal& focal) {
  const float p = 1 / (1 + expf(-x)), rest = 1 / (1 + expf(x));
  const float missed = target * rest + (1 - target) * p;
  const float factor = powf(missed, focal.gamma);
  const float weight =
      focal.alpha < 0 ? 1.0f : target * focal.alpha + (1 - target) * (1 - focal.alpha);
  const float turn = missed > 0 ? focal.gamma * (factor / missed) * cross_entropy : 0.0f;
  return {weight * factor * cross_entropy,
          weight * (turn * p * rest * (1 - 2 * target) + factor * (p - target))};
}

// -sum t log p; d/dx = p * sum(t) - t.
template <class T, class G>
__device__ inline float softmax_cross_entropy(const LossRow<T, G>& r, float* shared) {
  const auto target = [&r](std::int64_t i) {
    return r.targets.at(r.n, i) * (1 - r.smoothing) + r.smoothing / static_cast<float>(r.n);
  };
  const float most = maximum_of_row(r.x, r.n, shared);
  const float sum =
      sum_of_row(r.n, shared, [&](std::int64_t i) { return expf(to_float(r.x[i]) - most); });
  const float log_sum = logf(sum) + most;
  if (r.focal.on) return softmax_focal(r, target, log_sum, shared);
  const float mass = sum_of_row(r.n, shared, target);
  const float loss = sum_of_row(
      r.n, shared, [&](std::int64_t i) { return target(i) * (log_sum - to_float(r.x[i])); });
  if (r.dx != nullptr) {
    for_row(r.n, [&](std::int64_t i) {
      const float p = expf(to_float(r.x[i]) - log_sum);
      assign(r.dx[i], (p * mass - target(i)) * r.scale);
    });
  }
  return loss;
}

// mean of max(x, 0) - x t + log(1 + exp(-|x|)); d/dx = sigmoid(x) - t.
template <class T, class G>
__device__ inline float binary_cross_entropy(const LossRow<T, G>& r, float* shared) {
  const float share = 1.0f / static_cast<float>(r.n);
  const float loss = sum_of_row(r.n, shared, [&](std::int64_t i) {
    const float v = to_float(r.x[i]);
    const float target = r.targets.at(r.n, i) * (1 - r.smoothing) + 0.5f * r.smoothing;
    const float one = (v < 0 ? 0 : v) - v * target + log1pf(expf(-fabsf(v)));
    if (r.focal.on) {
      const BinaryFocal focal = binary_focal(v, target, one, r.focal);
      if (r.dx != nullptr) assign(r.dx[i], focal.gradient * share * r.scale);
      return focal.loss;
    }
    if (r.dx != nullptr) assign(r.dx[i], (1 / (1 + expf(-v)) - target) * share * r.scale);
    return one;
  });
  return loss * share;
}

template <class T, class G>
__device__ inline float mean_squared_error(const LossRow<T, G>& r, float* shared) {
  const float share = 1.0f / static_cast<float>(r.n);
  const float loss = sum_of_row(r.n, shared, [&](std::int64_t i) {
    const float d = to_float(r.x[i]) - r.targets.at(r.n, i);
    if (r.dx != nullptr) assign(r.dx[i], 2 * d * share * r.scale);
    return d * d;
  });
  return loss * share;
}

// The place of the largest number of a row, the first of equals.
__device__ inline std::int64_t largest_of_row(const float* row, std::int64_t n, double* shared) {
  float most = -INFINITY;
  for_row(n, [&](std::int64_t i) { most = fmaxf(most, row[i]); });
  most = over_block(most, -INFINITY, reinterpret_cast<float*>(shared), Maximum());
  std::int64_t first = n - 1;
  for_row(n, [&](std::int64_t i) {
    if (row[i] == most && i < first) first = i;
  });
  const auto least = [](std::int64_t a, std::int64_t b) { return a < b ? a : b; };
  return over_block(first, n - 1, reinterpret_cast<std::int64_t*>(shared), least);
}

// What the loss of a row is multiplied by: the weight of its class.
__device__ inline float weight_of_row(const RowTargets& targets, std::int64_t n,
                                      const float* class_weight, double* shared) {
  if (targets.numbers == nullptr) return class_weight[targets.index];
  if (n == 1) return class_weight[targets.numbers[0] > 0.5f ? 1 : 0];
  return class_weight[largest_of_row(targets.numbers, n, shared)];
}

template <LossKind kind, class T, class G>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const T* logits, Targets targets, const float* class_weight, float smoothing,
                LossFocal focal, float* losses, G* dlogits, const StepScalars* scalars,
                const StepState* state, std::int64_t n) {
  float* shared = shared_memory<float>();
  LossRow<T, G> r;
  const std::int64_t row = blockIdx.x;
  r.n = n;
  r.x = logits + row * n;
  r.dx = dlogits != nullptr ? dlogits + row * n : nullptr;
  r.targets = targets.row(row);
  r.smoothing = smoothing;
  r.focal = focal;
  float weight = class_weight != nullptr
                     ? weight_of_row(r.targets, n, class_weight, shared_memory<double>())
                     : 1.0f;
  if (r.targets.numbers != nullptr && targets.stride > n) weight *= r.targets.numbers[n];
  r.scale = dlogits != nullptr ? weight * (scalars->gradient_scale * state->loss_scale) : 0.0f;
  float loss = 0;
  if constexpr (kind == LossKind::kSoftmaxCrossEntropy) loss = softmax_cross_entropy(r, shared);
  if constexpr (kind == LossKind::kBinaryCrossEntropy) loss = binary_cross_entropy(r, shared);
  if constexpr (kind == LossKind::kMeanSquaredError) loss = mean_squared_error(r, shared);
  if (threadIdx.x == 0) losses[row] = weight * loss;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    class_rank_kernel(const T* logits, Targets targets, float threshold, std::int32_t* ranks,
                      std::int64_t n) {
  double* shared = shared_memory<double>();
  const std::int64_t row = blockIdx.x;
  const RowTargets target = targets.row(row);
  logits += row * n;
  if (n == 1) {
    const bool label = target.numbers != nullptr ? target.numbers[0] > 0.5f : target.index > 0;
    if (threadIdx.x == 0) ranks[row] = (to_float(logits[0]) > threshold) == label ? 0 : 1;
    return;
  }
  const std::int64_t label =
      target.numbers != nullptr ? largest_of_row(target.numbers, n, shared) : target.index;
  const float own = to_float(logits[label]);
  std::int32_t before = 0;
  for_row(n, [&](std::int64_t i) {
    const float v = to_float(logits[i]);
    if (i < label ? v >= own : i > label && v > own) ++before;
  });
  before = over_block(before, 0, reinterpret_cast<std::int32_t*>(shared), Sum());
  if (threadIdx.x == 0) ranks[row] = before;
}

Targets make_targets(const void* labels, DType type, std::int64_t n, bool sample_weight) {
  if (type == DType::kInt32) return {static_cast<const std::int32_t*>(labels), nullptr, 1};
  return {nullptr, static_cast<const float*>(labels), sample_weight ? n + 1 : n};
}

template <class T, class G>
auto loss_kernel_of(LossKind kind) {
  if (kind == LossKind::kSoftmaxCrossEntropy) {
    return loss_kernel<LossKind::kSoftmaxCrossEntropy, T, G>;
  }
  if (kind == LossKind::kBinaryCrossEntropy) {
    return loss_kernel<LossKind::kBinaryCrossEntropy, T, G>;
  }
  return loss_kernel<LossKind::kMeanSquaredError, T, G>;
}

}  // namespace

void loss(const graph::Loss& op, const void* logits, DType type, const void* labels,
          DType label_type, const float* class_weight, float* losses, void* dlogits,
          DType gradient_type, const StepScalars* scalars, const StepState* state,
          std::int64_t rows, std::int64_t n, cudaStream_t stream) {
  const LossFocal focal =
      op.focal ? LossFocal{true, op.focal->gamma, op.focal->alpha} : LossFocal{false, 0, 0};
  with_type(type, [&]<class T>() {
    with_type(gradient_type, [&]<class G>() {
      launch("loss", loss_kernel_of<T, G>(op.kind), static_cast<unsigned>(rows), row_threads(n),
             kRowShared, stream, static_cast<const T*>(logits),
             make_targets(labels, label_type, n, op.sample_weight), class_weight,
             op.label_smoothing, focal, losses, static_cast<G*>(dlogits), scalars, state, n);
    });
  });
}

void class_rank(const graph::ClassRank& op, const void* logits, DType type, const void* labels,
                DType label_type, std::int32_t* ranks, std::int64_t rows, std::int64_t n,
                cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("class_rank", class_rank_kernel<T>, static_cast<unsigned>(rows), row_threads(n),
           kRowShared, stream, static_cast<const T*>(logits),
           make_targets(labels, label_type, n, op.sample_weight), op.threshold, ranks, n);
  });
}

}  // namespace trainer::backend::cuda
