#include <atomic>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {
namespace {

cudaStream_t capturing(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  const cudaStream_t stream = make_stream();
  CUDA_REQUIRE(cudaStreamBeginCapture(stream, mode));
  return stream;
}

cudaError_t end(cudaStream_t stream) {
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  const cudaError_t status = cudaStreamEndCapture(stream, &graph);
  if (status != cudaSuccess) CHECK(graph == nullptr);
  return status;
}

}  // namespace

TEST_CASE("fake capture: captured work does not run") {
  const FreshFake fake;
  const cudaStream_t stream = capturing();
  std::atomic<bool> ran = false;
  CUDA_CHECK(fake::enqueue(stream, "a kernel", [&ran] { ran = true; }));
  CUDA_CHECK(end(stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK_FALSE(ran.load());
}

TEST_CASE("fake capture: waiting for a captured stream is an error that ends the capture") {
  const FreshFake fake;
  cudaStream_t stream = capturing();
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(fake::enqueue(stream, "a kernel", [] {}) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  CUDA_CHECK(cudaStreamSynchronize(stream));  // usable again
  stream = capturing();
  CHECK(cudaStreamQuery(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("fake capture: unsafe calls of the capturing thread end the capture") {
  const FreshFake fake;
  const cudaStream_t other = make_stream();
  const cudaEvent_t event = make_event();
  float* device = device_values(1);
  float* pinned = pinned_values(1);
  const auto check_refused = [](const auto& call) {
    const cudaStream_t stream = capturing();
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  };
  void* memory = nullptr;
  check_refused([&] { return cudaMalloc(&memory, 1); });
  check_refused([&] { return cudaFree(device); });
  check_refused([&] { return cudaHostAlloc(&memory, 1, 0); });
  check_refused([&] { return cudaFreeHost(pinned); });
  check_refused([&] { return cudaStreamSynchronize(other); });
  check_refused([&] { return cudaEventQuery(event); });
  const cudaStream_t relaxed = capturing(cudaStreamCaptureModeRelaxed);
  CUDA_CHECK(cudaMalloc(&memory, 1));
  CUDA_CHECK(end(relaxed));
}

TEST_CASE("fake capture: unsafe calls of other threads end a global capture only") {
  const FreshFake fake;
  const auto status_of_other_thread = [] {
    cudaError_t status = cudaSuccess;
    std::thread([&status] {
      void* memory = nullptr;
      status = cudaMalloc(&memory, 1);
    }).join();
    return status;
  };
  cudaStream_t stream = capturing(cudaStreamCaptureModeThreadLocal);
  CHECK(status_of_other_thread() == cudaSuccess);
  CUDA_CHECK(end(stream));
  stream = capturing(cudaStreamCaptureModeGlobal);
  CHECK(status_of_other_thread() == cudaErrorStreamCaptureUnsupported);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("fake capture: copies of pageable memory are not captured") {
  const FreshFake fake;
  float* device = device_values(1);
  float pageable = 0;
  cudaStream_t stream = capturing();
  CHECK(cudaMemcpyAsync(device, &pageable, 4, cudaMemcpyHostToDevice, stream) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("fake capture: a forked stream must be joined") {
  const FreshFake fake;
  const cudaEvent_t fork = make_event(), join = make_event();
  for (const bool joins : {false, true}) {
    const cudaStream_t stream = capturing(), side = make_stream();
    CUDA_CHECK(cudaEventRecord(fork, stream));
    CUDA_CHECK(cudaStreamWaitEvent(side, fork, 0));
    CUDA_CHECK(fake::enqueue(side, "a kernel", [] {}));
    CUDA_CHECK(cudaEventRecord(join, side));
    if (joins) CUDA_CHECK(cudaStreamWaitEvent(stream, join, 0));
    CHECK(end(stream) == (joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    CUDA_CHECK(cudaStreamSynchronize(side));  // no longer captured
  }
}

TEST_CASE("fake capture: events do not cross the capture's border") {
  const FreshFake fake;
  const cudaEvent_t outside = make_event(), inside = make_event(), second = make_event();
  CUDA_CHECK(cudaEventRecord(outside, make_stream()));
  cudaStream_t stream = capturing();
  CHECK(cudaStreamWaitEvent(stream, outside, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);

  stream = capturing();
  const cudaStream_t other = capturing();
  CUDA_CHECK(cudaEventRecord(second, other));
  CHECK(cudaStreamWaitEvent(stream, second, 0) == cudaErrorStreamCaptureMerge);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(end(other) == cudaErrorStreamCaptureInvalidated);

  stream = capturing();
  CUDA_CHECK(cudaEventRecord(inside, stream));
  CHECK(cudaEventSynchronize(inside) == cudaErrorCapturedEvent);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaEventQuery(inside) == cudaErrorCapturedEvent);
  CHECK(cudaStreamWaitEvent(stream, inside, 0) == cudaErrorCapturedEvent);
  CUDA_CHECK(cudaEventRecord(inside, stream));  // an ordinary event again
  CUDA_CHECK(cudaEventSynchronize(inside));
}

TEST_CASE("fake capture: only the stream and the thread that began it may end it") {
  const FreshFake fake;
  const cudaEvent_t fork = make_event();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(make_stream(), &graph) == cudaErrorIllegalState);
  cudaStream_t stream = capturing();
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaErrorIllegalState);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);

  stream = capturing();
  const cudaStream_t side = make_stream();
  CUDA_CHECK(cudaEventRecord(fork, stream));
  CUDA_CHECK(cudaStreamWaitEvent(side, fork, 0));
  CHECK(end(side) == cudaErrorStreamCaptureUnmatched);
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);

  stream = capturing();
  std::thread([stream] { CHECK(end(stream) == cudaErrorStreamCaptureWrongThread); }).join();
  CHECK(end(stream) == cudaErrorStreamCaptureInvalidated);
  stream = capturing(cudaStreamCaptureModeRelaxed);
  std::thread([stream] { CHECK(end(stream) == cudaSuccess); }).join();
}

TEST_CASE("fake capture: the legacy stream is neither captured nor used beside a blocking stream") {
  const FreshFake fake;
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) ==
        cudaErrorStreamCaptureUnsupported);
  const cudaStream_t blocking = make_stream(cudaStreamDefault);
  CUDA_REQUIRE(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
  CHECK(fake::enqueue(nullptr, "a kernel", [] {}) == cudaErrorStreamCaptureImplicit);
  CHECK(end(blocking) == cudaErrorStreamCaptureInvalidated);
  const cudaStream_t stream = capturing();
  CUDA_CHECK(fake::enqueue(nullptr, "a kernel", [] {}));
  CUDA_CHECK(end(stream));
}

}  // namespace trainer::test
