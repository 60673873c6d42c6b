// Kernel launches of simt.h. This program has its own simt::run_grid, which calls each thread.
#include <atomic>
#include <string>

#include "cuda/fake_runtime/test/support.h"
#include "cuda/simt/simt.h"

namespace simt {

void run_grid(const char*, dim3 grid, dim3 block, std::size_t,
              const std::function<void()>& thread) {
  const unsigned threads = grid.x * grid.y * grid.z * block.x * block.y * block.z;
  for (unsigned i = 0; i < threads; ++i) thread();
}

}  // namespace simt

namespace trainer::test {

TEST_CASE("fake launches: a kernel's threads run in its stream") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  std::atomic<int> threads = 0;  // the host looks while the kernel may run
  simt::launch(stream, "a kernel", dim3(2, 3), dim3(4), 0, [&threads] { ++threads; });
  CUDA_CHECK(cudaGetLastError());
  CHECK(threads == 0);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(threads == 24);
}

TEST_CASE("fake launches: a device below compute capability 8.0 has no code of a kernel") {
  const FreshFake fake("CAPABILITIES", "7.5,8.6");
  const cudaError_t expected[] = {cudaErrorNoKernelImageForDevice, cudaSuccess};
  for (int device = 0; device < 2; ++device) {
    CUDA_REQUIRE(cudaSetDevice(device));
    const cudaStream_t stream = make_stream();
    simt::launch(stream, "kernel", dim3(1), dim3(1), 0, [] {});
    CHECK(cudaGetLastError() == expected[device]);
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  CUDA_CHECK(cudaSetDevice(0));
}

TEST_CASE("fake launches: a grid that no device can run is an error of the launch") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  const auto status = [stream](dim3 grid, dim3 block, std::size_t shared) {
    simt::launch(stream, "a kernel", grid, block, shared, [] {});
    return cudaGetLastError();
  };
  CHECK(status(dim3(1), dim3(1024), 227 << 10) == cudaSuccess);
  CHECK(status(dim3(1), dim3(1025), 0) == cudaErrorInvalidConfiguration);
  CHECK(status(dim3(1), dim3(64, 32), 0) == cudaErrorInvalidConfiguration);
  CHECK(status(dim3(1), dim3(1, 1, 65), 0) == cudaErrorInvalidConfiguration);
  CHECK(status(dim3(0), dim3(1), 0) == cudaErrorInvalidConfiguration);
  CHECK(status(dim3(1, 65536), dim3(1), 0) == cudaErrorInvalidConfiguration);
  CHECK(status(dim3(1), dim3(1), (227 << 10) + 1) == cudaErrorInvalidValue);
}

TEST_CASE(
    "fake launches: cudaLaunchKernelExC() is an error, and dynamic shared memory has its limit") {
  const FreshFake fake;
  const cudaLaunchConfig_t config{};
  CHECK(cudaLaunchKernelExC(&config, nullptr, nullptr) == cudaErrorInvalidDeviceFunction);
  const auto shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CUDA_CHECK(cudaFuncSetAttribute(&config, shared, 227 << 10));
  CHECK(cudaFuncSetAttribute(&config, shared, 228 << 10) == cudaErrorInvalidValue);
}

}  // namespace trainer::test
