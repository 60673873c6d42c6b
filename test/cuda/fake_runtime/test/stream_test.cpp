#include <array>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

TEST_CASE("fake streams: nothing runs before the host waits, and then in the stream's order") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  Notes done;
  for (const char letter : {'a', 'b', 'c'}) note(stream, done, letter);
  CHECK(done.text().empty());
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(done.text() == "abc");
}

// Under the thread sanitizer this fails if an operation runs on the stack of the thread that waits:
// the thread used the same addresses before, and nothing orders this before the operation.
TEST_CASE("fake streams: an operation shares no stack with the thread that runs it") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  // The sanitizer ignores variables whose address stays in their function.
  std::atomic<volatile std::uint64_t*> escaped = nullptr;
  const auto use_stack = [&escaped] {
    std::array<volatile std::uint64_t, 2500> words;
    escaped.store(words.data(), std::memory_order_relaxed);
    for (volatile std::uint64_t& word : words) word = 1;
  };
  CUDA_CHECK(fake::enqueue(stream, "an operation with a deep stack", use_stack));
  std::thread waiting([&] {
    use_stack();
    CUDA_CHECK(cudaStreamSynchronize(stream));
  });
  waiting.join();
}

TEST_CASE("fake streams: eager work runs at once") {
  const FreshFake fake("EAGER", "1");
  Notes done;
  note(make_stream(), done, 'a');
  CHECK(done.text() == "a");
}

TEST_CASE("fake streams: several streams run in every order that the seed can draw") {
  std::set<std::string> orders;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t first = make_stream(), second = make_stream();
    Notes done;
    note(first, done, 'a');
    note(second, done, 'x');
    note(first, done, 'b');
    note(second, done, 'y');
    CUDA_CHECK(cudaStreamSynchronize(first));
    CUDA_CHECK(cudaStreamSynchronize(second));
    CHECK(done.text().find('a') < done.text().find('b'));
    CHECK(done.text().find('x') < done.text().find('y'));
    orders.insert(done.text());
  }
  CHECK(orders.size() == 6);
}

TEST_CASE("fake streams: a seed draws the same order again") {
  const auto find_order = [](const char* seed) {
    const FreshFake fake("SEED", seed);
    Notes done;
    std::vector<cudaStream_t> streams;
    for (int s = 0; s < 5; ++s) streams.push_back(make_stream());
    for (int i = 0; i < 4; ++i) {
      for (int s = 0; s < 5; ++s)
        note(streams[static_cast<std::size_t>(s)], done, static_cast<char>('a' + s));
    }
    for (const cudaStream_t s : streams) CUDA_CHECK(cudaStreamSynchronize(s));
    return done.text();
  };
  for (const char* seed : {"3", "4"}) CHECK(find_order(seed) == find_order(seed));
  CHECK(find_order("3") != find_order("5"));
}

TEST_CASE("fake streams: synchronising one stream leaves others where they are") {
  const FreshFake fake("SEED", "2");
  int left = 0;
  for (int i = 0; i < 20; ++i) {
    const cudaStream_t first = make_stream(), second = make_stream();
    Notes done;
    note(first, done, 'a');
    note(second, done, 'x');
    CUDA_CHECK(cudaStreamSynchronize(first));
    CHECK(contains(done.text(), "a"));
    left += !contains(done.text(), "x");
    CUDA_CHECK(cudaStreamSynchronize(second));
  }
  CHECK(left > 0);
}

TEST_CASE("fake streams: repeated queries end") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  CUDA_CHECK(cudaStreamQuery(stream));
  Notes done;
  for (int i = 0; i < 20; ++i) note(stream, done, 'a');
  int not_ready = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++not_ready;
  CHECK(not_ready > 0);
  CHECK(done.text().size() == 20);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
}

TEST_CASE("fake streams: a destroyed stream finishes its work, and later calls with it fail") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream(), other = make_stream();
  const cudaEvent_t event = make_event();
  Notes done;
  note(stream, done, 'a');
  CUDA_CHECK(cudaEventRecord(event, stream));
  CUDA_CHECK(cudaStreamDestroy(stream));
  CHECK(done.text().empty());
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CUDA_CHECK(cudaStreamWaitEvent(other, event, 0));
  CUDA_CHECK(cudaStreamSynchronize(other));
  CHECK(done.text() == "a");
}

TEST_CASE("fake streams: a kernel needs a stream of the current device") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  CUDA_REQUIRE(cudaSetDevice(1));
  CHECK(fake::enqueue(stream, "a kernel", [] {}) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  float* values = device_values(4);
  CUDA_CHECK(cudaMemsetAsync(values, 0, 16, stream));  // copies may use any stream
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

TEST_CASE("fake streams: the legacy stream waits for blocking streams, and they for it") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t blocking = make_stream(cudaStreamDefault);
    Notes done;
    note(blocking, done, 'a');
    note(nullptr, done, 'b');
    note(blocking, done, 'c');
    CUDA_CHECK(cudaStreamSynchronize(blocking));
    CHECK(done.text() == "abc");
  }
}

TEST_CASE("fake streams: the legacy stream and non-blocking streams do not wait for each other") {
  std::set<std::string> orders;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t stream = make_stream(cudaStreamNonBlocking);
    Notes done;
    note(stream, done, 'a');
    note(nullptr, done, 'b');
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
    orders.insert(done.text());
  }
  CHECK(orders.size() == 2);
}

}  // namespace trainer::test
