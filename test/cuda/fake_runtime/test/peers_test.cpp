// Memory calls that wait for the devices of other ranks.
#include <nccl.h>

#include <cstdlib>
#include <thread>

#include "cuda/fake_runtime/test/nccl_support.h"

namespace trainer::test {
namespace {

// A fake whose devices have peer access.
class PeerAccess {
 public:
  PeerAccess() { setenv("TRAINER_FAKE_CUDA_PEER_ACCESS", "1", 1); }
};

// Two ranks of one thread with a value each, and what memory calls need.
struct Peers {
  explicit Peers(const Communicators& all) : comms(all) {
    for (int r = 0; r < 2; ++r) {
      CUDA_REQUIRE(cudaSetDevice(r));
      streams[r] = make_stream();
      values[r] = device_values(1);
      fill(streams[r], values[r], 1, 1);
    }
    spare = device_values(1);
    pinned = pinned_values(1);
    CUDA_REQUIRE(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeThreadLocal));
    fill(streams[1], spare, 1, 2);
    CUDA_REQUIRE(cudaStreamEndCapture(streams[1], &graph));
    CUDA_REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
  }
  void launch(int rank) {
    CUDA_REQUIRE(cudaSetDevice(rank));
    const ncclComm_t comm = comms[static_cast<std::size_t>(rank)];
    NCCL_CHECK(
        ncclAllReduce(values[rank], values[rank], 1, ncclFloat32, ncclSum, comm, streams[rank]));
  }
  // On device 1.
  cudaError_t call(const std::string& function) {
    CUDA_REQUIRE(cudaSetDevice(1));
    void* memory = nullptr;
    cudaGraphExec_t instantiated = nullptr;
    if (function == "cudaMalloc") return cudaMalloc(&memory, 4);
    if (function == "cudaFree") return cudaFree(spare);
    if (function == "cudaHostAlloc") return cudaHostAlloc(&memory, 4, cudaHostAllocDefault);
    if (function == "cudaFreeHost") return cudaFreeHost(pinned);
    if (function == "cudaGraphUpload") return cudaGraphUpload(exec, streams[1]);
    return cudaGraphInstantiate(&instantiated, graph, 0);
  }

  const Communicators& comms;
  cudaStream_t streams[2];
  float* values[2];
  float *spare = nullptr, *pinned = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

const char* const kMemoryCalls[] = {"cudaMalloc",           "cudaFree",
                                    "cudaHostAlloc",        "cudaFreeHost",
                                    "cudaGraphInstantiate", "cudaGraphUpload"};

}  // namespace

TEST_CASE(
    "fake peers: a memory call between the launches of two ranks is a deadlock that names both") {
  for (const std::string function : kMemoryCalls) {
    const PeerAccess access;
    const FreshFake fake("DEADLOCK_MS", "100");
    on_ranks_of_one_thread([&function](const Communicators& comms) {
      Peers peers(comms);
      peers.launch(0);
      const std::string printed =
          printed_by([&] { CHECK(peers.call(function) == cudaErrorLaunchTimeout); });
      INFO(printed);
      CHECK(contains(printed, "no thread can make progress"));
      CHECK(contains(printed, "on rank 0', which waits for rank 1"));
      CHECK(contains(printed, "a host thread: " + function));
      CHECK(contains(printed, " waits for the work of devices 0 1"));
      abort_all(comms);
    });
  }
}

TEST_CASE("fake peers: memory calls before and after the launches of all ranks succeed") {
  for (const std::string function : kMemoryCalls) {
    const PeerAccess access;
    const FreshFake fake("DEADLOCK_MS", "2000");
    on_ranks_of_one_thread([&function](const Communicators& comms) {
      Peers peers(comms);
      CUDA_CHECK(peers.call(function));
      peers.launch(0);
      peers.launch(1);
      if (function == "cudaMalloc" || function == "cudaHostAlloc") {
        CUDA_CHECK(peers.call(function));
      }
      CHECK(read(peers.values[1], 1, peers.streams[1])[0] == 2);
      abort_all(comms);
    });
  }
}

TEST_CASE("fake peers: the first launch of a kernel between two ranks' launches is a deadlock") {
  const PeerAccess access;
  const FreshFake fake("DEADLOCK_MS", "100");
  on_ranks_of_one_thread([](const Communicators& comms) {
    Peers peers(comms);
    peers.launch(0);
    CUDA_REQUIRE(cudaSetDevice(1));
    const auto launch = [&peers](const char* kernel) {
      return fake::enqueue(peers.streams[1], kernel, [] {});
    };
    const std::string printed = printed_by([&] { CHECK(launch("new") == cudaErrorLaunchTimeout); });
    CHECK(contains(printed, "the first launch of new on device 1 waits for the work of devices"));
    abort_all(comms);
  });
  const PeerAccess access_again;
  const FreshFake again("DEADLOCK_MS", "2000");
  on_ranks_of_one_thread([](const Communicators& comms) {
    Peers peers(comms);
    CUDA_REQUIRE(cudaSetDevice(1));
    CUDA_CHECK(fake::enqueue(peers.streams[1], "known", [] {}));
    peers.launch(0);
    CUDA_REQUIRE(cudaSetDevice(1));
    CUDA_CHECK(fake::enqueue(peers.streams[1], "known", [] {}));
    peers.launch(1);
    CHECK(read(peers.values[1], 1, peers.streams[1])[0] == 2);
    abort_all(comms);
  });
}

TEST_CASE("fake peers: the first launch of a graph whose upload has not ended is a memory call") {
  enum class Upload { kNone, kPending, kDone };
  for (const Upload upload : {Upload::kNone, Upload::kPending, Upload::kDone}) {
    const PeerAccess access;
    const FreshFake fake("DEADLOCK_MS", "200");
    on_ranks_of_one_thread([upload](const Communicators& comms) {
      Peers peers(comms);
      CUDA_REQUIRE(cudaStreamSynchronize(peers.streams[0]));
      if (upload != Upload::kNone) CUDA_CHECK(cudaGraphUpload(peers.exec, peers.streams[1]));
      if (upload == Upload::kDone) CUDA_CHECK(cudaStreamSynchronize(peers.streams[1]));
      peers.launch(0);
      CUDA_REQUIRE(cudaSetDevice(1));
      cudaError_t launched = cudaSuccess;
      const std::string printed =
          printed_by([&] { launched = cudaGraphLaunch(peers.exec, peers.streams[1]); });
      if (upload == Upload::kDone) {
        CHECK(launched == cudaSuccess);
        peers.launch(1);
        CHECK(read(peers.values[1], 1, peers.streams[1])[0] == 2);
      } else {
        CHECK(launched == cudaErrorLaunchTimeout);
        CHECK(contains(printed,
                       "a host thread: the first launch of a graph on device 1 waits for "
                       "the work of devices 0 1"));
      }
      abort_all(comms);
    });
  }
}

TEST_CASE("fake peers: a launch while another thread's memory call waits is a deadlock") {
  const PeerAccess access;
  const FreshFake fake("DEADLOCK_MS", "200");
  on_ranks_of_one_thread([](const Communicators& comms) {
    Peers peers(comms);
    peers.launch(0);
    cudaError_t allocated = cudaSuccess;
    const std::string printed = printed_by([&] {
      std::thread other([&] { allocated = peers.call("cudaMalloc"); });
      while (fake::count_calls("cudaMalloc") < 4) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      CUDA_REQUIRE(cudaSetDevice(1));
      CHECK(ncclAllReduce(peers.values[1], peers.values[1], 1, ncclFloat32, ncclSum, comms[1],
                          peers.streams[1]) != ncclSuccess);
      other.join();
    });
    CHECK(allocated == cudaErrorLaunchTimeout);
    CHECK(contains(printed, "a host thread: cudaMalloc on device 1"));
    abort_all(comms);
  });
}

TEST_CASE("fake peers: memory calls of a device without peers wait for no work") {
  const PeerAccess access;
  const FreshFake fake;
  const cudaStream_t stream = make_stream();
  Notes done;
  note(stream, done, 'a');
  device_values(1);
  pinned_values(1);
  CHECK(done.text().empty());
  on_ranks_of_one_thread([&](const Communicators& comms) {
    Notes more;
    note(stream, more, 'b');
    device_values(1);
    CHECK(more.text() == "b");
    abort_all(comms);
  });
}

TEST_CASE("fake peers: count_memory_calls counts the calls since reset()") {
  const PeerAccess access;
  const FreshFake fake;
  CHECK(fake::count_memory_calls() == 0);
  CUDA_CHECK(cudaFree(device_values(1)));
  CUDA_CHECK(cudaFreeHost(pinned_values(1)));
  const cudaStream_t stream = make_stream();
  CUDA_CHECK(cudaGraphUpload(captured(stream, [] {}), stream));
  CHECK(fake::count_memory_calls() == 6);
  CHECK(fake::count_calls("cudaMalloc") == 1);
}

}  // namespace trainer::test
