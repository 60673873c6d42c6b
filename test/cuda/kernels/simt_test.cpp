// The scheduler that runs kernels on the processor: what it computes and what it rejects.
#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <vector>

#include "simt/device.h"
#include "support/contains.h"

namespace {

void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& kernel) {
  simt::run_grid("test", grid, block, shared_bytes, kernel);
}

// The message of the error that a kernel must cause.
std::string catch_error(dim3 block, const std::function<void()>& kernel) {
  try {
    run(dim3(3), block, 0, kernel);
  } catch (const simt::Error& error) {
    return error.what();
  }
  return "no error";
}

using trainer::test::contains;

}  // namespace

TEST_CASE("simt: each thread of each block runs once with its own indices") {
  const dim3 grid(5, 3, 2), block(7, 2, 3);
  std::vector<int> runs(5 * 3 * 2 * 7 * 2 * 3);
  run(grid, block, 0, [&] {
    const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ++runs[b * 42 + t];
  });
  CHECK(runs == std::vector<int>(runs.size(), 1));
}

TEST_CASE("simt: what threads write before a barrier the others read behind it") {
  for (const unsigned threads : {1u, 31u, 32u, 33u, 256u, 1000u, 1024u}) {
    std::vector<unsigned> out(2 * threads);
    run(dim3(2), dim3(threads), threads * sizeof(unsigned), [&] {
      auto* shared = static_cast<unsigned*>(simt::shared_memory());
      unsigned value = threadIdx.x;
      for (int round = 0; round < 3; ++round) {
        shared[threadIdx.x] = value;
        __syncthreads();
        value = shared[(threadIdx.x + 1) % threads];
        __syncthreads();
      }
      out[blockIdx.x * threads + threadIdx.x] = value;
    });
    for (unsigned i = 0; i < 2 * threads; ++i) CHECK(out[i] == (i % threads + 3) % threads);
  }
}

TEST_CASE("simt: shuffles exchange values inside a warp, block after block") {
  std::vector<double> sums(4 * 96);
  run(dim3(4), dim3(96), 0, [&] {
    double sum = threadIdx.x;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    sums[blockIdx.x * 96 + threadIdx.x] = sum;
  });
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double first = static_cast<double>(i % 96 / 32 * 32);
    CHECK(sums[i] == first * 32 + 31 * 16);
  }
}

TEST_CASE("simt: threads start in an order that depends on the seed") {
  const auto find_order = [](std::uint64_t seed) {
    std::vector<unsigned> order(64);
    std::atomic<unsigned> next = 0;
    simt::set_seed(seed);
    run(dim3(1), dim3(64), 0, [&] { order[threadIdx.x] = next++; });
    return order;
  };
  CHECK(find_order(5) != find_order(6));
}

TEST_CASE("simt: dynamic shared memory starts as NaN in each block") {
  std::atomic<int> numbers = 0;
  run(dim3(3), dim3(8), 8 * sizeof(float), [&] {
    auto* shared = static_cast<float*>(simt::shared_memory());
    if (!std::isnan(shared[threadIdx.x])) ++numbers;
    __syncthreads();
    shared[threadIdx.x] = 1;
  });
  CHECK(numbers == 0);
}

TEST_CASE("simt: the error of a barrier that some threads leave out has its place") {
  const std::string error = catch_error(dim3(64), [] {
    if (threadIdx.x != 40) __syncthreads();
  });
  CHECK(contains(error, "simt_test.cpp:"));
  CHECK(contains(error, "a barrier that threads of the block do not reach"));
  CHECK(contains(error, "kernel test"));
}

TEST_CASE("simt: threads at two different barriers are an error") {
  const std::string error = catch_error(dim3(64), [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  CHECK(contains(error, "a barrier while other threads of the block are at another"));
}

TEST_CASE("simt: a shuffle that a lane of its mask leaves out is an error") {
  const std::string error = catch_error(dim3(64), [] {
    if (threadIdx.x != 3) __shfl_xor_sync(~0u, 1.0f, 1);
  });
  CHECK(contains(error, "a shuffle that some lanes of its mask do not reach"));
}

TEST_CASE("simt: a shuffle by a lane outside of its mask is an error") {
  const std::string error = catch_error(dim3(32), [] { __shfl_xor_sync(1u, 1.0f, 1); });
  CHECK(contains(error, "a shuffle by a lane that its mask leaves out"));
}

TEST_CASE("simt: lanes at two different shuffles are an error") {
  const std::string error = catch_error(dim3(32), [] {
    if (threadIdx.x < 16) {
      __shfl_xor_sync(~0u, 1, 1);
    } else {
      __shfl_xor_sync(~0u, 1, 1);
    }
  });
  CHECK(contains(error, "a shuffle while other lanes of its mask are at another"));
}

TEST_CASE("simt: an access that is not aligned is an error") {
  alignas(16) char bytes[32];
  CHECK(catch_error(dim3(1), [&] { simt::check_aligned(bytes, 16); }) == "no error");
  CHECK(contains(catch_error(dim3(1), [&] { simt::check_aligned(bytes + 8, 16); }), "not aligned"));
}

TEST_CASE("simt: grids that CUDA would not start are an error") {
  const auto nothing = [] {};
  CHECK_THROWS_AS(run(dim3(0), dim3(1), 0, nothing), simt::Error);
  CHECK_THROWS_AS(run(dim3(1), dim3(1025), 0, nothing), simt::Error);
  CHECK_THROWS_AS(run(dim3(1, 65536), dim3(1), 0, nothing), simt::Error);
  CHECK_THROWS_AS(run(dim3(1), dim3(1), (48 << 10) + 1, nothing), simt::Error);
}

TEST_CASE("simt: kernels run after one that failed") {
  catch_error(dim3(64), [] {
    if (threadIdx.x % 2 == 0) __syncthreads();
  });
  std::atomic<int> count = 0;
  run(dim3(2), dim3(64), 0, [&] {
    __syncthreads();
    ++count;
    __syncthreads();
  });
  CHECK(count == 128);
}
