#include "backend/cuda/kernels/loss.h"
#include "backend/cuda/kernels/targets.cuh"
#include "backend/loss_terms.h"

namespace trainer::backend::cuda {
namespace {

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
  BinaryTargets binary_target;
  LossFocal focal;
  const float* target_weight;  // graph::Loss::target_weight; null: all weights are 1
};

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

// -sum t log p; d/dx = p * sum(t) - t.
template <class T, class G>
__device__ inline float softmax_cross_entropy(const LossRow<T, G>& r, float* shared) {
  const auto target = [&r](std::int64_t i) {
    return r.targets.at(r.n, i) * (1 - r.smoothing) + r.smoothing / static_cast<float>(r.n);
  };
  const float maximum = maximum_of_row(r.x, r.n, shared);
  const float sum =
      sum_of_row(r.n, shared, [&](std::int64_t i) { return expf(to_float(r.x[i]) - maximum); });
  const float log_sum = logf(sum) + maximum;
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

// mean of max(x, 0) - x t + log(1 + exp(-|x|)); d/dx = sigmoid(x) - t. The terms of targets that
// are NaN are left out.
template <class T, class G>
__device__ inline float binary_cross_entropy(const LossRow<T, G>& r, float* shared) {
  const float share = 1.0f / static_cast<float>(r.n);
  const float loss = sum_of_row(r.n, shared, [&](std::int64_t i) {
    const float v = to_float(r.x[i]);
    if (isnan(r.targets.at(r.n, i))) {
      if (r.dx != nullptr) assign(r.dx[i], 0.0f);
      return 0.0f;
    }
    const float target = r.binary_target(r.targets.at(r.n, i));
    if (r.target_weight != nullptr) {
      const float negative = r.target_weight[i], positive = r.target_weight[r.n + i];
      const BinaryTerm term = r.focal.on ? weighted_focal(v, target, negative, positive, r.focal)
                                         : weighted_term(v, target, negative, positive);
      if (r.dx != nullptr) assign(r.dx[i], term.gradient * share * r.scale);
      return term.loss;
    }
    const float one = (v < 0 ? 0 : v) - v * target + log1pf(expf(-fabsf(v)));
    if (r.focal.on) {
      const BinaryTerm focal = binary_focal(v, target, one, r.focal);
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

// What the loss of a row is multiplied by: the weight of its class.
__device__ inline float weight_of_row(const RowTargets& targets, std::int64_t n,
                                      const float* class_weight, double* shared) {
  if (targets.numbers == nullptr) return class_weight[targets.index];
  if (n == 1) return class_weight[targets.numbers[0] > 0.5f ? 1 : 0];
  return class_weight[largest_of_row(targets.numbers, n, shared)];
}

template <LossKind kind, class T, class G>
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const T* logits, Targets targets, const float* class_weight,
                const float* target_weight, BinaryTargets binary_target, LossFocal focal,
                float* losses, G* dlogits, const StepScalars* scalars, const StepState* state,
                std::int64_t n) {
  float* shared = shared_memory<float>();
  LossRow<T, G> r;
  const std::int64_t row = blockIdx.x;
  r.n = n;
  r.x = logits + row * n;
  r.dx = dlogits != nullptr ? dlogits + row * n : nullptr;
  r.targets = targets.row(row);
  r.smoothing = binary_target.smoothing;
  r.binary_target = binary_target;
  r.focal = focal;
  r.target_weight = target_weight;
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

template <class T, class G>
auto find_loss_kernel(LossKind kind) {
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
          DType label_type, const float* weights, float* losses, void* dlogits, DType gradient_type,
          const StepScalars* scalars, const StepState* state, std::int64_t rows, std::int64_t n,
          cudaStream_t stream) {
  const LossFocal focal =
      op.focal ? LossFocal{true, op.focal->gamma, op.focal->alpha} : LossFocal{false, 0, 0};
  const float* const class_weight = op.class_weight.empty() ? nullptr : weights;
  const float* const target_weight = op.target_weight.empty() ? nullptr : weights;
  with_type(type, [&]<class T>() {
    with_type(gradient_type, [&]<class G>() {
      launch("loss", find_loss_kernel<T, G>(op.kind), static_cast<unsigned>(rows), row_threads(n),
             kRowShared, stream, static_cast<const T*>(logits),
             make_targets(labels, label_type, n, op.sample_weight), class_weight, target_weight,
             BinaryTargets{op.label_smoothing, op.smoothing_centre, op.target_threshold}, focal,
             losses, static_cast<G*>(dlogits), scalars, state, n);
    });
  });
}

}  // namespace trainer::backend::cuda
