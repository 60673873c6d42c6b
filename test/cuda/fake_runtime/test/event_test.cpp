#include <atomic>
#include <string>

#include "cuda/fake_runtime/test/support.h"

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

TEST_CASE("fake events: a query does not wait") {
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

TEST_CASE("fake events: an event belongs to the device that it was made on") {
  const FreshFake fake;
  const cudaEvent_t event = make_event();
  CUDA_REQUIRE(cudaSetDevice(1));
  CHECK(cudaEventRecord(event, make_stream()) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("fake events: calls with a destroyed event fail, and waits for it stay") {
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
  CHECK(ms == doctest::Approx(0.001));
  CHECK(cudaEventElapsedTime(&ms, first, untimed) == cudaErrorInvalidResourceHandle);
}

TEST_CASE("fake events: kernels take time on a device, and late work begins late") {
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    fake::reset();
    fake::seed(seed);
    const cudaStream_t stream = make_stream();
    cudaEvent_t events[4];
    for (cudaEvent_t& e : events) e = make_event(cudaEventDefault);
    CUDA_CHECK(cudaEventRecord(events[0], stream));
    for (int i = 0; i < 2; ++i) CUDA_CHECK(fake::enqueue(stream, "kernel", [] {}));
    CUDA_CHECK(cudaEventRecord(events[1], stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaEventRecord(events[2], stream));  // the device had nothing to do meanwhile
    CUDA_CHECK(fake::enqueue(stream, "kernel", [] {}));
    CUDA_CHECK(cudaEventRecord(events[3], stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    float busy = 0, gap = 0, next = 0;
    CUDA_CHECK(cudaEventElapsedTime(&busy, events[0], events[1]));
    CUDA_CHECK(cudaEventElapsedTime(&gap, events[1], events[2]));
    CUDA_CHECK(cudaEventElapsedTime(&next, events[2], events[3]));
    CHECK(busy == doctest::Approx(0.011));  // the first was submitted 1 us after the event
    CHECK(gap == doctest::Approx(0.001));
    CHECK(next == doctest::Approx(0.006));
  }
}

}  // namespace trainer::test
