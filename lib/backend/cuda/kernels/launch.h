// Starts kernels from the host code of this folder, and computes their layout. The .cu files are
// compiled by nvcc for GPUs, and by g++ for tests, which run them on the processor
// (test/cuda/simt).
// Reasons: lib/decisions/backend.md#kernels-compile-for-the-gpu-and-the-cpu.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "backend/cuda/kernels/counted_work.h"
#include "base/error.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

#include "backend/cuda/runtime.h"
#else
#include <simt/device.h>
#endif

namespace trainer::backend::cuda {

// Enqueues kernel(args...) as `name`, which errors mention. Arguments are converted to the kernel's
// parameters and copied. A grid without blocks does nothing.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (CountedWork* counted = CountedWork::current()) {
    ++counted->kernels;
    return;
  }
  std::tuple<Parameters...> parameters(static_cast<Parameters>(arguments)...);
#ifdef __CUDACC__
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  std::apply(
      [&](auto&... parameter) {
        void* pointers[] = {&parameter...};
        check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers), name);
      },
      parameters);
#else
  simt::launch(stream, name, grid, block, shared_bytes,
               [kernel, parameters] { std::apply(kernel, parameters); });
#endif
}

// The dynamic shared memory of a block, aligned to 16 bytes.
template <class T>
__device__ inline T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ uint4 trainer_shared[];
  return reinterpret_cast<T*>(trainer_shared);
#else
  return static_cast<T*>(simt::shared_memory());
#endif
}

inline constexpr int kThreads = 256;  // threads per block, unless a kernel has another bound

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Returns the pixels as 32 bits, which kernels divide faster.
inline unsigned pixel_count(std::int64_t pixels) {
  constexpr std::int64_t kMaxPixels = 0x7fffffff;
  if (pixels > kMaxPixels) {
    throw DeviceError(concat("a batch of ", pixels, " pixels; kernels for GPUs take up to ",
                             kMaxPixels, "; use a smaller train.batch_size"));
  }
  return static_cast<unsigned>(pixels);
}

// A one-dimensional grid whose threads take `per_thread` elements each.
inline dim3 grid_over(std::int64_t count, std::int64_t per_thread) {
  return dim3(static_cast<unsigned>(divide_up(count, kThreads * per_thread)));
}
// The first element of the running thread in such a grid.
template <int kPerThread>
__device__ inline std::int64_t first_element() {
  return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPerThread;
}

// Calls f(std::integral_constant<int, i>) for i below N. Arrays that the calls index by i stay in
// registers, which a loop whose body is too long to be unrolled cannot promise.
template <int N, class F>
__device__ inline void unrolled(const F& f) {
  [&f]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, N>{});
}

// Limits the blocks along y to what a grid may have; kernels loop over the rest.
inline unsigned grid_y(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, 65535));
}

}  // namespace trainer::backend::cuda
