#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/reduce.cuh"

namespace trainer::backend::cuda {
namespace {

using graph::LossKind;

constexpr int kPenaltyBlocks = 1024;
constexpr std::size_t kShared = kWarp * sizeof(double);  // what over_block() needs for any type

// Threads for a row of n numbers; one block takes one row.
unsigned row_threads(std::int64_t n) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(divide_up(n, 4 * kWarp) * kWarp, kWarp, kThreads));
}

// Calls f(i) for the numbers of a row that are this thread's.
template <class F>
__device__ inline void for_row(std::int64_t n, const F& f) {
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
}
template <class F>
__device__ inline float sum_of_row(std::int64_t n, float* shared, const F& f) {
  float sum = 0;
  for_row(n, [&](std::int64_t i) { sum += f(i); });
  return over_block(sum, 0.0f, shared, Sum());
}
template <class T>
__device__ inline float maximum_of_row(const T* x, std::int64_t n, float* shared) {
  float most = -INFINITY;
  for_row(n, [&](std::int64_t i) { most = fmaxf(most, to_float(x[i])); });
  return over_block(most, -INFINITY, shared, Maximum());
}

template <class T>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const T* x, T* y, std::int64_t n) {
  float* shared = shared_memory<float>();
  x += blockIdx.x * n;
  y += blockIdx.x * n;
  const float most = maximum_of_row(x, n, shared);
  const float sum =
      sum_of_row(n, shared, [&](std::int64_t i) { return expf(to_float(x[i]) - most); });
  for_row(n, [&](std::int64_t i) { assign(y[i], expf(to_float(x[i]) - most) / sum); });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t n) {
  y += blockIdx.x * n;
  dy += blockIdx.x * n;
  dx += blockIdx.x * n;
  const float dot = sum_of_row(n, shared_memory<float>(),
                               [&](std::int64_t i) { return to_float(y[i]) * to_float(dy[i]); });
  for_row(n, [&](std::int64_t i) { assign(dx[i], to_float(y[i]) * (to_float(dy[i]) - dot)); });
}

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

// The penalty of a block's share of w; shares are of equal size.
__global__ void __launch_bounds__(kThreads)
    penalty_sums_kernel(const float* w, std::int64_t count, std::int64_t share, float squares,
                        float absolutes, double* sums) {
  const std::int64_t first = blockIdx.x * share;
  const std::int64_t last = first + share < count ? first + share : count;
  double sum = 0;
  for (std::int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    const auto v = static_cast<double>(w[i]);
    sum += v * v * static_cast<double>(squares) + fabs(v) * static_cast<double>(absolutes);
  }
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    penalty_kernel(const double* sums, std::int64_t count, float* y) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) y[0] = static_cast<float>(sum);
}

// One block. Its threads bring losses to shared memory, from where the first adds them up in order.
__global__ void __launch_bounds__(kThreads)
    add_numbers_kernel(const float* losses, const std::int32_t* ranks, const float* penalty,
                       std::int64_t samples, bool first, StepNumbers* numbers) {
  double* shared = shared_memory<double>();  // 32 for over_block(), then a loss a thread
  auto* values = reinterpret_cast<float*>(shared + kWarp);
  double loss = first ? 0 : numbers->loss;
  std::int32_t correct = 0, not_finite = 0;
  for (std::int64_t begin = 0; begin < samples; begin += blockDim.x) {
    const std::int64_t i = begin + threadIdx.x;
    const float value = losses != nullptr && i < samples ? losses[i] : 0.0f;
    if (!isfinite(value)) not_finite = 1;
    if (ranks != nullptr && i < samples && ranks[i] == 0) ++correct;
    values[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned k = 0; k < blockDim.x; ++k) loss += static_cast<double>(values[k]);
    }
    __syncthreads();
  }
  auto* counts = reinterpret_cast<std::int32_t*>(shared);
  correct = over_block(correct, 0, counts, Sum());
  not_finite = over_block(not_finite, 0, counts, Sum());
  if (threadIdx.x != 0) return;
  StepNumbers sum = {};
  sum.finite = true;
  if (!first) sum = *numbers;
  sum.loss = loss;
  sum.correct += correct;
  if (not_finite > 0) sum.finite = false;
  if (first && penalty != nullptr) sum.penalty = static_cast<double>(*penalty);
  *numbers = sum;
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

void softmax(const void* x, void* y, DType type, std::int64_t rows, std::int64_t n,
             cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("softmax", softmax_kernel<T>, static_cast<unsigned>(rows), row_threads(n), kShared,
           stream, static_cast<const T*>(x), static_cast<T*>(y), n);
  });
}

void softmax_backward(const void* y, const void* dy, void* dx, DType type, std::int64_t rows,
                      std::int64_t n, cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("softmax_backward", softmax_backward_kernel<T>, static_cast<unsigned>(rows),
           row_threads(n), kShared, stream, static_cast<const T*>(y), static_cast<const T*>(dy),
           static_cast<T*>(dx), n);
  });
}

void loss(const graph::Loss& op, const void* logits, DType type, const void* labels,
          DType label_type, const float* class_weight, float* losses, void* dlogits,
          DType gradient_type, const StepScalars* scalars, const StepState* state,
          std::int64_t rows, std::int64_t n, cudaStream_t stream) {
  const LossFocal focal =
      op.focal ? LossFocal{true, op.focal->gamma, op.focal->alpha} : LossFocal{false, 0, 0};
  with_type(type, [&]<class T>() {
    with_type(gradient_type, [&]<class G>() {
      launch("loss", loss_kernel_of<T, G>(op.kind), static_cast<unsigned>(rows), row_threads(n),
             kShared, stream, static_cast<const T*>(logits),
             make_targets(labels, label_type, n, op.sample_weight), class_weight,
             op.label_smoothing, focal, losses, static_cast<G*>(dlogits), scalars, state, n);
    });
  });
}

void class_rank(const graph::ClassRank& op, const void* logits, DType type, const void* labels,
                DType label_type, std::int32_t* ranks, std::int64_t rows, std::int64_t n,
                cudaStream_t stream) {
  with_type(type, [&]<class T>() {
    launch("class_rank", class_rank_kernel<T>, static_cast<unsigned>(rows), row_threads(n), kShared,
           stream, static_cast<const T*>(logits),
           make_targets(labels, label_type, n, op.sample_weight), op.threshold, ranks, n);
  });
}

void penalty(const graph::L2Penalty& op, const float* w, std::int64_t count, float* y,
             double* scratch, cudaStream_t stream) {
  const std::int64_t least = kThreads * 16;  // numbers of a block
  const std::int64_t share = std::max(least, divide_up(count, kPenaltyBlocks));
  const std::int64_t blocks = divide_up(count, share);
  launch("penalty_sums", penalty_sums_kernel, static_cast<unsigned>(blocks), kThreads, kShared,
         stream, w, count, share, op.factor, op.l1, scratch);
  launch("penalty", penalty_kernel, 1, kThreads, kShared, stream, scratch, blocks, y);
}

void add_numbers(const float* losses, const std::int32_t* ranks, const float* penalty,
                 std::int64_t samples, bool first, StepNumbers* numbers, cudaStream_t stream) {
  launch("add_numbers", add_numbers_kernel, 1, kThreads, kShared + kThreads * sizeof(float), stream,
         losses, ranks, penalty, samples, first, numbers);
}

}  // namespace trainer::backend::cuda
