#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step/exchange.h"

namespace trainer::backend::cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    write_trailer_kernel(const StepState* state, const float* statistics, std::int64_t count,
                         float* trailer) {
  const std::int64_t i = first_element<1>();
  const bool moved = state->moved != 0;
  if (i == 0) {
    trailer[0] = state->all_finite != 0 ? 0.0f : 1.0f;
    trailer[1] = moved ? 1.0f : 0.0f;
  }
  if (i < count) trailer[2 + i] = moved ? statistics[i] : 0.0f;
}

__global__ void __launch_bounds__(kThreads)
    read_trailer_kernel(const float* trailer, bool averaged, const float* before, float* statistics,
                        std::int64_t count, StepState* state) {
  const std::int64_t i = first_element<1>();
  const bool finite = trailer[0] == 0.0f;
  const float moved = trailer[1];
  if (i == 0) state->moved = 0;
  if (i >= count) return;
  if (!finite) {
    statistics[i] = before[i];
  } else if (averaged && moved != 0.0f) {
    // Trailer::read() multiplies too: a quotient would have other bits.
    statistics[i] = trailer[2 + i] * (1 / moved);
  }
}

}  // namespace

void write_trailer(const StepState* state, const float* statistics, std::int64_t count,
                   float* trailer, cudaStream_t stream) {
  launch("write_trailer", write_trailer_kernel, grid_over(std::max<std::int64_t>(count, 1), 1),
         kThreads, 0, stream, state, statistics, count, trailer);
}

void read_trailer(const float* trailer, bool averaged, const float* before, float* statistics,
                  std::int64_t count, StepState* state, cudaStream_t stream) {
  launch("read_trailer", read_trailer_kernel, grid_over(std::max<std::int64_t>(count, 1), 1),
         kThreads, 0, stream, trailer, averaged, before, statistics, count, state);
}

}  // namespace trainer::backend::cuda
