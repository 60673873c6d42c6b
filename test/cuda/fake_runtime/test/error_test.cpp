#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

TEST_CASE("fake errors: the last error is the thread's and is forgotten when read") {
  const FreshFake fake;
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  std::thread([] { CHECK(cudaGetLastError() == cudaSuccess); }).join();
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));  // does not clear it
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("fake errors: cudaGetErrorName() and cudaGetErrorString() return the texts of CUDA") {
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(12345))) ==
        "unrecognized error code");
}

TEST_CASE("fake errors: a kernel that fails is seen by the next wait and by all calls after it") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* values = device_values(1);
  CUDA_CHECK(fake::enqueue(stream, "a kernel", [] { throw std::runtime_error("out of range"); }));
  CUDA_CHECK(cudaMemsetAsync(values, 0, 4, stream));  // not seen yet
  const std::string printed =
      printed_by([stream] { CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure); });
  CHECK(contains(printed, "'a kernel' failed: out of range"));
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // not forgotten
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 1) == cudaErrorLaunchFailure);
  CHECK(cudaStreamQuery(stream) == cudaErrorLaunchFailure);
  CHECK(fake::enqueue(stream, "a kernel", [] {}) == cudaErrorLaunchFailure);
  std::thread([] { CHECK(cudaGetLastError() == cudaErrorLaunchFailure); }).join();
  CHECK(cudaFree(values) == cudaErrorLaunchFailure);
  CHECK(cudaStreamDestroy(stream) == cudaErrorLaunchFailure);
  CHECK(fake::left_over() == 0);  // freed nevertheless
}

TEST_CASE("fake errors: an error that ends a context leaves the other devices usable") {
  const FreshFake fake("FAIL", "cudaMalloc@1:2:cudaErrorECCUncorrectable");
  CUDA_CHECK(cudaSetDevice(1));
  const cudaStream_t broken = make_stream();
  device_values(1);
  CUDA_CHECK(cudaSetDevice(0));
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  CUDA_CHECK(cudaEventRecord(event, stream));
  device_values(1);
  device_values(1);
  CUDA_CHECK(cudaSetDevice(1));
  void* memory = nullptr;
  printed_by([&] { CHECK(cudaMalloc(&memory, 1) == cudaErrorECCUncorrectable); });
  CHECK(cudaGetLastError() == cudaErrorECCUncorrectable);
  CUDA_CHECK(cudaSetDevice(0));
  CHECK(cudaGetLastError() == cudaErrorECCUncorrectable);  // of this thread
  CHECK(cudaGetLastError() == cudaSuccess);
  Notes done;
  note(stream, done, 'a');
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaEventSynchronize(event));
  CHECK(done.text() == "a");
  CHECK(cudaStreamSynchronize(broken) == cudaErrorECCUncorrectable);
}

TEST_CASE("fake errors: nothing runs after a kernel that failed") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  std::atomic<bool> ran = false;
  CUDA_CHECK(fake::enqueue(stream, "a kernel", [] { throw std::runtime_error("fault"); }));
  CUDA_CHECK(fake::enqueue(stream, "the next", [&ran] { ran = true; }));
  printed_by([stream] { CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure); });
  CHECK_FALSE(ran.load());
}

TEST_CASE("fake errors: the n-th call of a function fails as asked in the environment") {
  const FreshFake fake("FAIL",
                       "cudaMalloc:2:cudaErrorMemoryAllocation,cudaStreamCreateWithFlags:1:999");
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 1));
  CHECK(cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation);
  CUDA_CHECK(cudaMalloc(&memory, 1));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, 0) == cudaErrorUnknown);
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, 0));
}

TEST_CASE("fake errors: the n-th call from here on fails as a test asks") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  CUDA_CHECK(cudaStreamSynchronize(stream));
  fake::fail("cudaStreamSynchronize", 2, "cudaErrorIllegalAddress");
  CUDA_CHECK(cudaStreamSynchronize(stream));
  printed_by([stream] { CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress); });
  CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);  // one of the sticky ones
  CHECK_THROWS_AS(fake::fail("cudaMalloc", 1, "cudaErrorOfMyOwn"), std::invalid_argument);
}

}  // namespace trainer::test
