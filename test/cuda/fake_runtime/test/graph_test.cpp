#include <set>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/nccl_support.h"

namespace trainer::test {
TEST_CASE("fake graphs: each launch does all the work again on memory as it is then") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  float* value = device_values(1);
  float* pinned = pinned_values(1);
  float* out = pinned_values(1);
  const cudaGraphExec_t graph = captured(stream, [&] {
    CUDA_CHECK(cudaMemcpyAsync(value, pinned, 4, cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(fake::enqueue(stream, "double", [value] { *value *= 2; }));
    CUDA_CHECK(cudaMemcpyAsync(out, value, 4, cudaMemcpyDeviceToHost, stream));
  });
  for (const float x : {1.f, 5.f}) {
    *pinned = x;
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(*out == 2 * x);
  }
}

TEST_CASE("fake graphs: branches run in any order between fork and join") {
  std::set<std::string> orders;
  for (unsigned seed = 0; seed < 40; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t stream = make_stream(), side = make_stream();
    const cudaEvent_t fork = make_event(), join = make_event();
    Notes done;
    const cudaGraphExec_t graph = captured(stream, [&] {
      note(stream, done, '(');
      CUDA_CHECK(cudaEventRecord(fork, stream));
      CUDA_CHECK(cudaStreamWaitEvent(side, fork, 0));
      note(stream, done, 'a');
      note(side, done, 'x');
      note(stream, done, 'b');
      CUDA_CHECK(cudaEventRecord(join, side));
      CUDA_CHECK(cudaStreamWaitEvent(stream, join, 0));
      note(stream, done, ')');
    });
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    orders.insert(done.text());
  }
  CHECK(orders == std::set<std::string>{"(abx)", "(axb)", "(xab)"});
}

TEST_CASE("fake graphs: a launch comes after the stream's work and before what follows") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t stream = make_stream();
    Notes done;
    const cudaGraphExec_t graph = captured(stream, [&] { note(stream, done, 'g'); });
    note(stream, done, 'a');
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    note(stream, done, 'b');
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(done.text() == "agbg");
  }
}

TEST_CASE("fake graphs: launches of one graph follow each other in different streams") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const FreshFake fake("SEED", std::to_string(seed));
    const cudaStream_t first = make_stream(), second = make_stream();
    Notes done;
    const cudaGraphExec_t graph = captured(first, [&] {
      note(first, done, 'a');
      note(first, done, 'b');
    });
    CUDA_CHECK(cudaGraphLaunch(graph, first));
    CUDA_CHECK(cudaGraphLaunch(graph, second));
    CUDA_CHECK(cudaStreamSynchronize(second));
    CHECK(done.text() == "abab");
  }
}

TEST_CASE("fake graphs: an upload waits for earlier work of its stream and runs no node") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream(), other = make_stream();
  Notes done;
  const cudaGraphExec_t graph = captured(stream, [&] { note(stream, done, 'g'); });
  note(other, done, 'a');
  CUDA_CHECK(cudaGraphUpload(graph, other));
  CUDA_CHECK(cudaGraphLaunch(graph, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(done.text() == "ag");
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaGraphUpload(graph, stream) == cudaErrorStreamCaptureUnsupported);
  CUDA_CHECK(cudaGraphExecDestroy(graph));
  CHECK(cudaGraphUpload(graph, other) == cudaErrorInvalidValue);
}

TEST_CASE("fake graphs: an instantiated graph outlives the graph, the stream and its own end") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream(), other = make_stream();
  Notes done;
  const cudaGraphExec_t graph = captured(other, [&] { note(other, done, 'g'); });
  CUDA_CHECK(cudaStreamDestroy(other));
  CUDA_CHECK(cudaGraphLaunch(graph, stream));
  CUDA_CHECK(cudaGraphExecDestroy(graph));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(done.text() == "g");
  CHECK(cudaGraphLaunch(graph, stream) == cudaErrorInvalidValue);
  CHECK(cudaGraphExecDestroy(graph) == cudaErrorInvalidValue);
}

TEST_CASE("fake graphs: a launch into a full queue waits until the device has done earlier work") {
  const FreshFake fake("QUEUE", "1");
  const cudaStream_t stream = make_stream();
  Notes done;
  const cudaGraphExec_t graph = captured(stream, [&] { note(stream, done, 'g'); });
  CUDA_CHECK(cudaGraphLaunch(graph, stream));
  CHECK(done.text().empty());
  CUDA_CHECK(cudaGraphLaunch(graph, stream));
  CHECK(done.text() == "g");
  note(stream, done, 'a');
  CHECK(done.text() == "gg");
  CUDA_CHECK(cudaSetDevice(1));  // whose queue is its own
  const cudaStream_t other = make_stream();
  note(other, done, 'x');
  CHECK(done.text() == "gg");
  CUDA_CHECK(cudaStreamSynchronize(other));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  CHECK(done.text().size() == 4);
}

TEST_CASE("fake graphs: a launch into a queue that a collective blocks waits for the other rank") {
  const FreshFake fake("QUEUE", "1");
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* value = device_values(1);
    const cudaGraphExec_t graph = captured(stream, [&] {
      NCCL_CHECK(ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comms[0], stream));
    });
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    std::atomic<bool> launched = false;
    std::thread second([&] {
      CUDA_CHECK(cudaGraphLaunch(graph, stream));
      launched = true;
    });
    while (fake::count_calls("cudaGraphLaunch") < 2) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CHECK_FALSE(launched.load());
    std::thread aborting([&] { NCCL_CHECK(ncclCommAbort(comms[0])); });
    second.join();
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    aborting.join();
    NCCL_CHECK(ncclCommAbort(comms[1]));
  });
}

TEST_CASE("fake graphs: an empty graph is launched like any other") {
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  const cudaGraphExec_t graph = captured(stream, [] {});
  CUDA_CHECK(cudaGraphLaunch(graph, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
}

}  // namespace trainer::test
