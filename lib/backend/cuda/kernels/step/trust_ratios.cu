// How far LAMB goes: the norm of a parameter over the norm of its step.
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/step/chunks.cuh"
#include "backend/cuda/kernels/step/update.h"
#include "backend/cuda/kernels/step/update_elements.cuh"

namespace trainer::backend::cuda {
namespace {

// Adds the squares of this thread's elements; those behind the segment are loaded as zeros.
template <int N>
__device__ inline void add_squares(const UpdateSegment& s, const Rates& rates,
                                   const UpdateBuffers& buffers, const UpdateChunk& chunk,
                                   LambSquares& squares) {
  for (std::int64_t i = chunk.first + threadIdx.x * N; i < chunk.last; i += blockDim.x * N) {
    const std::int64_t left = chunk.last - i;
    float g[N], w[N], m[N], v[N];
    load_gradient<N>(s, rates, buffers, i, left, g, w);
    clip_and_decay<N>(s, rates, g, w);
    load<N>(buffers.slots[0] + i, left, m);
    load<N>(buffers.slots[1] + i, left, v);
    for (int k = 0; k < N; ++k) {
      const double parameter = static_cast<double>(w[k]);
      const double step = static_cast<double>(lamb_step(s, rates, 1, g[k], m[k], v[k]));
      squares.parameter += parameter * parameter;
      squares.step += step * step;
    }
  }
}

// squares = the sum over the block's threads, for its first one.
__device__ inline void sum_over_block(LambSquares& squares, double* shared) {
  squares.parameter = over_block(squares.parameter, 0.0, shared, Sum());
  squares.step = over_block(squares.step, 0.0, shared, Sum());
}

__global__ void __launch_bounds__(kThreads)
    lamb_squares_kernel(const UpdateSegment* segments, const UpdateChunk* chunks,
                        UpdateBuffers buffers, const float* clip_scales, const StepScalars* scalars,
                        const StepState* state, LambSquares* squares) {
  const UpdateChunk chunk = chunks[blockIdx.x];
  const UpdateSegment& s = segments[chunk.segment];
  if (state->updates_now == 0 || s.rule != kRule<graph::LambRule>) return;
  double* sums = shared_memory<double>();
  Rates* rates = reinterpret_cast<Rates*>(sums + kWarp);
  if (threadIdx.x == 0) {
    *rates = make_rates(s, chunk.segment, {clip_scales, nullptr}, *scalars, *state);
  }
  __syncthreads();
  LambSquares sum{0, 0};
  if (chunk.first % 4 == 0) {
    add_squares<4>(s, *rates, buffers, chunk, sum);
  } else {
    add_squares<1>(s, *rates, buffers, chunk, sum);
  }
  sum_over_block(sum, sums);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

// One block computes the ratio of one segment.
__global__ void __launch_bounds__(kThreads)
    trust_ratios_kernel(const UpdateSegment* segments, const UpdateChunk* chunks,
                        std::int64_t chunk_count, const LambSquares* squares,
                        const StepState* state, float* ratios) {
  if (state->updates_now == 0 || segments[blockIdx.x].rule != kRule<graph::LambRule>) return;
  const std::int64_t last = find_first_chunk(chunks, chunk_count, blockIdx.x + 1);
  LambSquares sum{0, 0};
  for (std::int64_t i = find_first_chunk(chunks, chunk_count, blockIdx.x) + threadIdx.x; i < last;
       i += blockDim.x) {
    sum.parameter += squares[i].parameter;
    sum.step += squares[i].step;
  }
  sum_over_block(sum, shared_memory<double>());
  if (threadIdx.x != 0) return;
  ratios[blockIdx.x] =
      sum.parameter > 0 && sum.step > 0 ? static_cast<float>(sqrt(sum.parameter / sum.step)) : 1.0f;
}

}  // namespace

void lamb_squares(const UpdateSegment* segments, const UpdateChunk* chunks, std::int64_t count,
                  const UpdateBuffers& buffers, const float* clip_scales,
                  const StepScalars* scalars, const StepState* state, LambSquares* squares,
                  cudaStream_t stream) {
  launch("lamb_squares", lamb_squares_kernel, static_cast<unsigned>(count), kThreads,
         kWarp * sizeof(double) + sizeof(Rates), stream, segments, chunks, buffers, clip_scales,
         scalars, state, squares);
}

void trust_ratios(const UpdateSegment* segments, std::int64_t segment_count,
                  const UpdateChunk* chunks, std::int64_t chunk_count, const LambSquares* squares,
                  const StepState* state, float* ratios, cudaStream_t stream) {
  launch("trust_ratios", trust_ratios_kernel, static_cast<unsigned>(segment_count), kThreads,
         kWarp * sizeof(double), stream, segments, chunks, chunk_count, squares, state, ratios);
}

}  // namespace trainer::backend::cuda
