// Kernel launches: those of simt.h go into streams; compiled device code there is none.
//
// Follows CUDA Runtime API 13.0, "Execution Control" (cudaLaunchKernelExC: the errors of a launch;
// cudaFuncSetAttribute) and the CUDA Programming Guide, "Compute Capabilities" (limits of grids,
// blocks and shared memory, device.cpp). Kernels are built for compute capability 8.0 and newer; on
// another device a launch finds no code: "Binary compatibility" there, and the description of
// cudaErrorNoKernelImageForDevice.
#include <functional>
#include <string>

#include "cuda/fake_runtime/fake.h"
#include "cuda/fake_runtime/world.h"
#include "cuda/simt/simt.h"

namespace {

cudaError_t check_launch(dim3 grid, dim3 block, std::size_t shared_bytes) {
  cudaDeviceProp p{};
  if (const cudaError_t e = cudaGetDeviceProperties(&p, fake::current_device())) return e;
  if (p.major < 8) return cudaErrorNoKernelImageForDevice;
  const auto fits = [](dim3 size, const int(&most)[3]) {
    const auto within = [](unsigned n, int limit) {
      return n >= 1 && n <= static_cast<unsigned>(limit);
    };
    return within(size.x, most[0]) && within(size.y, most[1]) && within(size.z, most[2]);
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (!fits(grid, p.maxGridSize) || !fits(block, p.maxThreadsDim) ||
      threads > static_cast<std::uint64_t>(p.maxThreadsPerBlock)) {
    return cudaErrorInvalidConfiguration;
  }
  return shared_bytes <= p.sharedMemPerBlockOptin ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

void simt::launch(cudaStream_t stream, const char* kernel, dim3 grid, dim3 block,
                  std::size_t shared_bytes, std::function<void()> thread) {
  if (fake::end(check_launch(grid, block, shared_bytes)) != cudaSuccess) return;
  fake::enqueue(stream, kernel, [kernel, grid, block, shared_bytes, thread = std::move(thread)] {
    // The fake's time begins at 0, where a device's clock never is.
    simt::nanoseconds = static_cast<std::uint64_t>(1e9 * (1 + fake::running_since));
    simt::run_grid(kernel, grid, block, shared_bytes, thread);
  });
}

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const cudaError_t e = fake::begin(w, "cudaLaunchKernelExC")) return fake::end(e);
  return fake::end(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const cudaError_t e = fake::begin(w, "cudaFuncSetAttribute")) return fake::end(e);
  constexpr int kMaxSharedBytes = 227 << 10;
  const bool is_valid = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize
                            ? value >= 0 && value <= kMaxSharedBytes
                            : attribute == cudaFuncAttributePreferredSharedMemoryCarveout &&
                                  value >= -1 && value <= 100;
  return fake::end(is_valid ? cudaSuccess : cudaErrorInvalidValue);
}

}  // extern "C"
