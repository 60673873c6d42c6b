// Decides whether a call updates, and sets the loss scale of the next one.
#include "backend/cuda/kernels/float_types.cuh"
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/step/update.h"

namespace trainer::backend::cuda {
namespace {

constexpr float kMaxLossScale = 16777216.0f;
constexpr std::uint32_t kUpdatesUntilDoubled = 2000;

__global__ void clear_overflow_kernel(StepState* state) { state->overflowed = 0; }

// Blocks that find one all store the same 1.
template <int N>
__global__ void __launch_bounds__(kThreads)
    check_gradients_kernel(const float* gradients, std::int64_t count, StepState* state) {
  const std::int64_t i = first_element<N>();
  std::int32_t not_finite = 0;
  if (i < count) {
    float g[N];
    load<N>(gradients + i, count - i, g);
    for (int k = 0; k < N; ++k) not_finite += isfinite(g[k]) ? 0 : 1;
  }
  not_finite = over_block(not_finite, 0, shared_memory<std::int32_t>(), Sum());
  if (not_finite > 0 && threadIdx.x == 0) state->overflowed = 1;
}

__device__ inline void change_loss_scale(StepState& state) {
  if (state.overflowed != 0) {
    state.loss_scale = fmaxf(state.loss_scale * 0.5f, 1.0f);
    state.good_updates = 0;
  } else if (++state.good_updates >= kUpdatesUntilDoubled) {
    state.loss_scale = fminf(state.loss_scale * 2.0f, kMaxLossScale);
    state.good_updates = 0;
  }
}

// One thread.
__global__ void decide_update_kernel(const float* trailer, bool dynamic_loss_scale,
                                     const StepScalars* scalars, StepState* state,
                                     DeviceResult* result) {
  StepState now = *state;
  const bool all_finite = trailer != nullptr ? trailer[0] == 0.0f : now.all_finite != 0;
  const bool apply = scalars->apply != 0;
  // A call that does not update answers for itself alone.
  const bool finite =
      (apply || trailer != nullptr ? all_finite : now.finite != 0) && now.stopped == 0;
  now.finite = finite ? 1 : 0;
  now.all_finite = now.all_finite != 0 && finite ? 1 : 0;
  const bool overflowed = now.overflowed != 0;
  now.updates_now = apply && finite && !overflowed ? 1 : 0;
  if (scalars->stop_when_not_finite != 0 && !finite) now.stopped = 1;
  result->finite = finite;
  result->skipped = apply && finite && overflowed;
  result->gradient_norm = nan("");
  now.gradients_scale = now.loss_scale;
  if (dynamic_loss_scale && apply && finite) change_loss_scale(now);
  *state = now;
}

// One thread.
__global__ void settle_finite_kernel(const DeviceResult* result, const StepScalars* scalars,
                                     StepState* state) {
  const bool finite = result->finite && state->stopped == 0;
  const bool before = scalars->accumulate == 0 || state->all_finite != 0;
  state->finite = finite ? 1 : 0;
  state->all_finite = finite && before ? 1 : 0;
}

}  // namespace

void check_gradients(const float* gradients, std::int64_t count, StepState* state,
                     cudaStream_t stream) {
  const bool vectors = aligned({gradients});
  launch("clear_overflow", clear_overflow_kernel, 1, 1, 0, stream, state);
  launch("check_gradients", vectors ? check_gradients_kernel<4> : check_gradients_kernel<1>,
         grid_over(count, vectors ? 4 : 1), kThreads, kWarp * sizeof(std::int32_t), stream,
         gradients, count, state);
}

void decide_update(const float* trailer, bool dynamic_loss_scale, const StepScalars* scalars,
                   StepState* state, DeviceResult* result, cudaStream_t stream) {
  launch("decide_update", decide_update_kernel, 1, 1, 0, stream, trailer, dynamic_loss_scale,
         scalars, state, result);
}

void settle_finite(const DeviceResult* result, const StepScalars* scalars, StepState* state,
                   cudaStream_t stream) {
  launch("settle_finite", settle_finite_kernel, 1, 1, 0, stream, result, scalars, state);
}

}  // namespace trainer::backend::cuda
