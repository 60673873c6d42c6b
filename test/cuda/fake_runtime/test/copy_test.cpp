#include <atomic>
#include <cmath>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

TEST_CASE("fake copies: pinned memory is read when the copy runs") {
  if (kThreadSanitizer) TRAINER_SKIP("what it does is a race, which ThreadSanitizer reports");
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(1);
  float* pinned = pinned_values(1);
  *pinned = 1;
  CUDA_CHECK(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, stream));
  *pinned = 2;  // too early
  CHECK(read(device, 1, stream)[0] == 2);
}

TEST_CASE("fake copies: pageable memory is read before the call returns") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(1);
  float pageable = 1;
  CUDA_CHECK(cudaMemcpyAsync(device, &pageable, 4, cudaMemcpyHostToDevice, stream));
  pageable = 2;
  CHECK(read(device, 1, stream)[0] == 1);
}

TEST_CASE("fake copies: a copy of pageable memory may wait for the stream or not") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(1);
  const float pageable = 1;
  int waited = 0;
  for (int i = 0; i < 64; ++i) {
    std::atomic<bool> ran = false;
    CUDA_REQUIRE(fake::enqueue(stream, "a kernel", [&ran] { ran = true; }));
    CUDA_CHECK(cudaMemcpyAsync(device, &pageable, 4, cudaMemcpyHostToDevice, stream));
    waited += ran.load();
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(waited > 0);
  CHECK(waited < 64);
}

TEST_CASE(
    "fake copies: those to pageable memory may be done on return or not, to pinned memory are "
    "not") {
  if (kThreadSanitizer) TRAINER_SKIP("what it does is a race, which ThreadSanitizer reports");
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(1);
  float* pinned = pinned_values(1);
  int done = 0;
  for (int i = 0; i < 64; ++i) {
    float pageable = 0;
    *pinned = 0;
    fill(stream, device, 1, 5);
    CUDA_CHECK(cudaMemcpyAsync(pinned, device, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(*pinned == 0);
    CUDA_CHECK(cudaMemcpyAsync(&pageable, device, 4, cudaMemcpyDeviceToHost, stream));
    if (pageable == 5) {
      ++done;
      CHECK(*pinned == 5);
    }
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(pageable == 5);
  }
  CHECK(done > 0);
  CHECK(done < 64);
}

TEST_CASE("fake copies: cudaMemcpyDefault copies between devices by the kinds of the addresses") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* from = device_values(8);
  CUDA_REQUIRE(cudaSetDevice(1));
  float* to = device_values(8);
  CUDA_REQUIRE(cudaSetDevice(0));
  fill(stream, from, 8, 3);
  CUDA_CHECK(cudaMemcpyAsync(to, from, 32, cudaMemcpyDefault, stream));
  for (const float value : read(to, 8, stream)) CHECK(value == 3);
}

TEST_CASE("fake copies: wrong ranges and directions are errors") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(64);
  float* pinned = pinned_values(64);
  const auto copy = [stream](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream);
  };
  CUDA_CHECK(copy(device, pinned, 256, cudaMemcpyHostToDevice));
  CHECK(copy(device, pinned, 256, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  CHECK(copy(device, pinned, 256, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(device + 60, pinned, 32, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(copy(device, device + 4, 32, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(copy(nullptr, pinned, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CUDA_CHECK(copy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  CHECK(cudaMemsetAsync(pinned, 0, 4, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(device, 0, 257, stream) == cudaErrorInvalidValue);
}

TEST_CASE("fake copies: a fill sets bytes") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* device = device_values(4);
  CUDA_CHECK(cudaMemsetAsync(device, 0, 8, stream));
  const std::vector<float> values = read(device, 4, stream);
  CHECK(values[1] == 0);
  CHECK(std::isnan(values[2]));
}

TEST_CASE("fake copies: is_device_memory() is true for allocated ranges of that device") {
  const FreshFake fake;
  float* device = device_values(4);
  CHECK(fake::is_device_memory(device, 16));
  CHECK(fake::is_device_memory(device + 1, 12, 0));
  CHECK_FALSE(fake::is_device_memory(device, 16, 1));
  CHECK_FALSE(fake::is_device_memory(device, 17));
  CHECK_FALSE(fake::is_device_memory(&device, 1));
}

}  // namespace trainer::test
