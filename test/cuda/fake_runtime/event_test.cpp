#include <atomic>
#include <string>

#include "cuda/fake_runtime/support.h"

namespace trainer::test {

TEST_CASE("fake events: work after a wait runs after what the event captured") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t first = make_stream();
    CUDA_REQUIRE(cudaSetDevice(1));
    const cudaStream_t second = make_stream();
    CUDA_REQUIRE(cudaSetDevice(0));
    const cudaEvent_t event = make_event();
    std::atomic<bool> made = false, seen = false;
    CUDA_REQUIRE(fake::enqueue(first, "make", [&made] { made = true; }));
    CUDA_CHECK(cudaEventRecord(event, first));
    CUDA_CHECK(cudaStreamWaitEvent(second, event, 0));  // of another device
    CUDA_REQUIRE(cudaSetDevice(1));
    CUDA_REQUIRE(fake::enqueue(second, "use", [&made, &seen] { seen = made.load(); }));
    CUDA_CHECK(cudaStreamSynchronize(second));
    CHECK(seen.load());
  }
}

TEST_CASE("fake events: a wait keeps what was captured when it was called") {
  const FreshFake fake;
  const cudaStream_t first = make_stream(), second = make_stream();
  const cudaEvent_t event = make_event();
  CUDA_CHECK(cudaEventRecord(event, first));
  CUDA_CHECK(cudaStreamWaitEvent(second, event, 0));
  int ran_before = 0;
  // If the wait followed the second record, the work in `first` would always run before.
  for (int i = 0; i < 50; ++i) {
    std::atomic<bool> late = false;
    CUDA_REQUIRE(fake::enqueue(first, "late", [&late] { late = true; }));
    CUDA_CHECK(cudaEventRecord(event, first));
    CUDA_CHECK(cudaStreamSynchronize(second));
    ran_before += late.load();
    CUDA_CHECK(cudaEventSynchronize(event));
    CHECK(late.load());
    CUDA_CHECK(cudaStreamWaitEvent(second, event, 0));
  }
  CHECK(ran_before < 50);
}

TEST_CASE("fake events: an event that was never recorded is complete") {
  const FreshFake fake;
  const cudaEvent_t event = make_event();
  CUDA_CHECK(cudaEventQuery(event));
  CUDA_CHECK(cudaEventSynchronize(event));
  CUDA_CHECK(cudaStreamWaitEvent(make_stream(), event, 0));
}

TEST_CASE("fake events: asking does not wait") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  const cudaEvent_t event = make_event();
  for (int i = 0; i < 10; ++i) CUDA_REQUIRE(fake::enqueue(stream, "a kernel", [] {}));
  CUDA_CHECK(cudaEventRecord(event, stream));
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  CUDA_CHECK(cudaEventQuery(event));
}

TEST_CASE("fake events: belong to the device that they were made on") {
  const FreshFake fake;
  const cudaEvent_t event = make_event();
  CUDA_REQUIRE(cudaSetDevice(1));
  CHECK(cudaEventRecord(event, make_stream()) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("fake events: a destroyed event is no event, and its waits stay") {
  const FreshFake fake("SEED", "2");
  const cudaStream_t first = make_stream(), second = make_stream();
  const cudaEvent_t event = make_event();
  std::atomic<bool> made = false;
  CUDA_REQUIRE(fake::enqueue(first, "make", [&made] { made = true; }));
  CUDA_CHECK(cudaEventRecord(event, first));
  CUDA_CHECK(cudaStreamWaitEvent(second, event, 0));
  CUDA_CHECK(cudaEventDestroy(event));
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  CUDA_CHECK(cudaStreamSynchronize(second));
  CHECK(made.load());
}

TEST_CASE("fake events: the time between events needs both, complete and with timing") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  const cudaEvent_t first = make_event(cudaEventDefault), second = make_event(cudaEventDefault);
  const cudaEvent_t untimed = make_event();
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, first, second) == cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t e : {first, second, untimed}) CUDA_CHECK(cudaEventRecord(e, stream));
  CHECK(cudaEventElapsedTime(&ms, first, second) == cudaErrorNotReady);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CUDA_CHECK(cudaEventElapsedTime(&ms, first, second));
  CHECK(ms >= 0);
  CHECK(cudaEventElapsedTime(&ms, first, untimed) == cudaErrorInvalidResourceHandle);
}

}  // namespace trainer::test
