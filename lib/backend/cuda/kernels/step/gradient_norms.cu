// Norms of gradients, of a segment and of all, and what clips by them.
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/step/chunks.cuh"
#include "backend/cuda/kernels/step/update.h"

namespace trainer::backend::cuda {
namespace {

using Clip = graph::Clip::Kind;

constexpr unsigned kClipThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    gradient_squares_kernel(const UpdateSegment* segments, const UpdateChunk* chunks,
                            UpdateBuffers buffers, const StepState* state, double* squares) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const float l1 = segments[chunk.segment].l1, l2 = segments[chunk.segment].l2;
  const float unscale = 1.0f / state->gradients_scale;
  double sum = 0;
  for (std::int64_t i = chunk.first + threadIdx.x; i < chunk.last; i += blockDim.x) {
    const float w = buffers.parameters[i], sign = w > 0 ? l1 : w < 0 ? -l1 : 0.0f;
    const float v = buffers.gradients[i] * unscale + 2 * l2 * w + sign;
    sum += static_cast<double>(v) * static_cast<double>(v);
  }
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__device__ inline float clip_scale(double squares, float limit) {
  const double norm = sqrt(squares), max_norm = static_cast<double>(limit);
  return static_cast<float>(norm > max_norm ? max_norm / norm : 1.0);
}

// One block. A warp takes every 32nd segment; its lanes add up the squares of the chunks.
__global__ void __launch_bounds__(kClipThreads)
    clip_scales_kernel(const UpdateSegment* segments, std::int64_t segment_count,
                       const UpdateChunk* chunks, std::int64_t chunk_count, const double* squares,
                       float* scales) {
  double* shared = shared_memory<double>();
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  double all = 0;  // of this warp's segments
  for (std::int64_t s = warp; s < segment_count; s += blockDim.x / kWarp) {
    const std::int64_t last = find_first_chunk(chunks, chunk_count, s + 1);
    double sum = 0;
    for (std::int64_t i = find_first_chunk(chunks, chunk_count, s) + lane; i < last; i += kWarp) {
      sum += squares[i];
    }
    for (int d = kWarp / 2; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    all += sum;
    if (lane == 0) scales[s] = clip_scale(sum, segments[s].clip.limit);
  }
  all = over_block(lane == 0 ? all : 0.0, 0.0, shared, Sum());
  for (std::int64_t s = threadIdx.x; s < segment_count; s += blockDim.x) {
    if (segments[s].clip.kind == Clip::kGlobalNorm) {
      scales[s] = clip_scale(all, segments[s].clip.limit);
    } else if (segments[s].clip.kind != Clip::kNorm) {
      scales[s] = 1.0f;
    }
  }
}

// One block.
__global__ void __launch_bounds__(kClipThreads)
    gradient_norm_kernel(const double* squares, std::int64_t count, const StepState* state,
                         DeviceResult* result) {
  if (state->updates_now == 0) return;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += squares[i];
  sum = over_block(sum, 0.0, shared_memory<double>(), Sum());
  if (threadIdx.x == 0) result->gradient_norm = sqrt(sum);
}

}  // namespace

void gradient_squares(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
                      const UpdateBuffers& buffers, const StepState* state, double* squares,
                      cudaStream_t stream) {
  launch("gradient_squares", gradient_squares_kernel, static_cast<unsigned>(count), kThreads,
         kWarp * sizeof(double), stream, segments, chunks, buffers, state, squares);
}

void clip_scales(const UpdateSegment* segments, std::int64_t segment_count,
                 const UpdateChunk* chunks, std::int64_t chunk_count, const double* squares,
                 float* scales, cudaStream_t stream) {
  launch("clip_scales", clip_scales_kernel, 1, kClipThreads, kWarp * sizeof(double), stream,
         segments, segment_count, chunks, chunk_count, squares, scales);
}

void gradient_norm(const double* squares, std::int64_t count, const StepState* state,
                   DeviceResult* result, cudaStream_t stream) {
  launch("gradient_norm", gradient_norm_kernel, 1, kClipThreads, kWarp * sizeof(double), stream,
         squares, count, state, result);
}

}  // namespace trainer::backend::cuda
