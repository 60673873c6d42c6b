#include <atomic>
#include <cmath>
#include <cstdint>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

TEST_CASE("fake memory: new memory is aligned, filled with NaN and inaccessible to the host") {
  const FreshFake fake;
  float* values = device_values(100);
  CHECK(reinterpret_cast<std::uintptr_t>(values) % 256 == 0);
  const cudaStream_t stream = make_stream();
  for (const float value : read(values, 100, stream)) CHECK(std::isnan(value));
  const Ended ended = run_in_child([values] { static_cast<volatile float*>(values)[0] = 1; });
  CHECK_FALSE(ended.normally);
#ifndef __SANITIZE_THREAD__
  CHECK(contains(ended.output, "fake cuda: the host touched device memory"));
#endif
}

TEST_CASE("fake memory: memory is inaccessible to the host after an operation used it") {
  const FreshFake fake;
  float* values = device_values(10);
  const cudaStream_t stream = make_stream();
  fill(stream, values, 10, 1);
  CUDA_REQUIRE(cudaStreamSynchronize(stream));
  CHECK_FALSE(run_in_child([values] { static_cast<volatile float*>(values)[3] = 1; }).normally);
}

TEST_CASE(
    "fake memory: an operation on another device, freed memory or the next buffer is an error") {
  const FreshFake fake;
  float* mine = device_values(64);
  float* freed = device_values(64);
  CUDA_REQUIRE(cudaFree(freed));
  CUDA_REQUIRE(cudaSetDevice(1));
  float* other = device_values(64);
  CUDA_REQUIRE(cudaSetDevice(0));
  const auto ends_normally = [](float* values, std::size_t at) {
    const Ended ended = run_in_child([=] {
      // ThreadSanitizer is blind in a child whose parent has a stream, which it takes for a thread.
      const cudaStream_t stream = make_stream();
      fake::enqueue(stream, "a kernel", [=] { static_cast<volatile float*>(values)[at] = 1; });
      cudaStreamSynchronize(stream);
    });
#ifndef __SANITIZE_THREAD__
    if (!ended.normally) CHECK(contains(ended.output, "the operation 'a kernel' touched memory"));
#endif
    return ended.normally;
  };
  CHECK(ends_normally(mine, 63));
  CHECK_FALSE(ends_normally(mine, 64));
  CHECK_FALSE(ends_normally(freed, 0));
  CHECK_FALSE(ends_normally(other, 0));
}

TEST_CASE("fake memory: the environment sets the size of each device") {
  const FreshFake fake("MEMORY", "1048576");
  std::size_t free = 0, total = 0;
  float* values = device_values(200'000);
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  CHECK(total == 1048576);
  CHECK(free <= total - 800'000);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 300'000) == cudaErrorMemoryAllocation);
  CHECK(more == nullptr);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(&more, ~std::size_t{0}) == cudaErrorMemoryAllocation);
  CUDA_REQUIRE(cudaSetDevice(1));
  CUDA_CHECK(cudaMalloc(&more, 300'000));
  CUDA_REQUIRE(cudaSetDevice(0));
  CUDA_CHECK(cudaFree(values));
  CUDA_CHECK(cudaMalloc(&more, 300'000));
}

TEST_CASE("fake memory: the first launch of a kernel takes memory of its device for good") {
  const FreshFake fake("KERNEL_MEMORY", "1000000000");
  const auto launch = [](const char* kernel) {
    const cudaStream_t stream = make_stream();
    const cudaError_t status = fake::enqueue(stream, kernel, [] {});
    CUDA_REQUIRE(cudaStreamSynchronize(stream));
    return status;
  };
  const auto taken = [] {
    std::size_t free = 0, total = 0;
    CUDA_REQUIRE(cudaMemGetInfo(&free, &total));
    return total - free;
  };
  CHECK(taken() == 0);
  CUDA_CHECK(launch("one"));
  CUDA_CHECK(launch("one"));
  CHECK(taken() == 1'000'000'000);
  CUDA_REQUIRE(cudaSetDevice(1));
  CHECK(taken() == 0);
  CUDA_REQUIRE(cudaSetDevice(0));
  void* most = nullptr;
  CUDA_REQUIRE(cudaMalloc(&most, 1'000'000'000));
  CHECK(launch("two") == cudaErrorMemoryAllocation);
  CUDA_REQUIRE(cudaFree(most));
  CUDA_CHECK(launch("two"));
  CHECK(taken() == 2'000'000'000);
}

TEST_CASE("fake memory: a free of memory that is not allocated is an error") {
  const FreshFake fake;
  float* values = device_values(10);
  float* pinned = pinned_values(10);
  CHECK(cudaFree(values + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(values) == cudaErrorInvalidValue);
  CUDA_CHECK(cudaFree(values));
  CHECK(cudaFree(values) == cudaErrorInvalidValue);
  CUDA_CHECK(cudaFreeHost(pinned));
  CHECK(cudaFreeHost(pinned) == cudaErrorInvalidValue);
  CUDA_CHECK(cudaFree(nullptr));
  CUDA_CHECK(cudaFreeHost(nullptr));
}

TEST_CASE("fake memory: the seed decides whether cudaFree waits for the device") {
  const FreshFake fake;
  int waited = 0;
  for (int i = 0; i < 64; ++i) {
    const cudaStream_t stream = make_stream();
    std::atomic<bool> ran = false;
    CUDA_REQUIRE(fake::enqueue(stream, "a kernel", [&ran] { ran = true; }));
    CUDA_REQUIRE(cudaFree(device_values(1)));
    waited += ran.load();
    CUDA_REQUIRE(cudaStreamSynchronize(stream));
  }
  CHECK(waited > 0);
  CHECK(waited < 64);
}

TEST_CASE("fake memory: left_over counts what was not freed") {
  const FreshFake fake;
  CHECK(fake::left_over() == 0);
  float* values = device_values(10);
  float* pinned = pinned_values(10);
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  const cudaGraphExec_t graph = captured(stream, [&] { fill(stream, values, 10, 1); });
  CHECK(fake::left_over() == 5);
  CHECK(contains(fake::left_over_text(), "40 bytes of device 0"));
  CHECK(contains(fake::left_over_text(), "an instantiated graph of 1 nodes"));
  CUDA_CHECK(cudaGraphExecDestroy(graph));
  CUDA_CHECK(cudaEventDestroy(event));
  CUDA_CHECK(cudaStreamDestroy(stream));
  CUDA_CHECK(cudaFreeHost(pinned));
  CUDA_CHECK(cudaFree(values));
  CHECK(fake::left_over() == 0);
}

TEST_CASE(
    "fake memory: a message at the end of a program names memory that it does not free if asked "
    "for") {
  const FreshFake fake("CHECK", "1");
  const auto program = [](bool frees) {
    return run_in_child([frees] {
      float* values = device_values(10);
      if (frees) cudaFree(values);
    });
  };
  CHECK(program(true).normally);
  const Ended ended = program(false);
  CHECK_FALSE(ended.normally);
  CHECK(contains(ended.output, "has not freed:\n40 bytes of device 0"));
}

}  // namespace trainer::test
