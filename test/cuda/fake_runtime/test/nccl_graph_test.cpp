// Collectives in graphs: what all ranks must do alike, and how long a graph holds its communicator.
#include <nccl.h>

#include <atomic>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/nccl_support.h"

namespace trainer::test {
namespace {

void all_reduce(ncclComm_t comm, cudaStream_t stream, float* values) {
  NCCL_CHECK(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm, stream));
}

// Two ranks of one thread: a stream, a value and communicators that do not block, if asked for.
struct TwoRanks {
  explicit TwoRanks(const Communicators& all) : comms(all) {
    for (int r = 0; r < 2; ++r) {
      CUDA_REQUIRE(cudaSetDevice(r));
      streams[r] = make_stream();
      values[r] = device_values(1);
      fill(streams[r], values[r], 1, 1);
    }
  }
  cudaGraphExec_t capture(int rank, int calls = 1) {
    CUDA_REQUIRE(cudaSetDevice(rank));
    return captured(streams[rank], [&] {
      for (int i = 0; i < calls; ++i) sum(rank);
    });
  }
  void sum(int rank) {
    CUDA_REQUIRE(cudaSetDevice(rank));
    all_reduce(comms[static_cast<std::size_t>(rank)], streams[rank], values[rank]);
  }
  // What is printed while the first rank waits for a failure.
  std::string failure() {
    return printed_by(
        [this] { CHECK(cudaStreamSynchronize(streams[0]) == cudaErrorLaunchFailure); });
  }

  const Communicators& comms;
  cudaStream_t streams[2];
  float* values[2];
};

}  // namespace

TEST_CASE("fake NCCL graphs: a call that only some ranks capture is reported") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    TwoRanks ranks(comms);
    CUDA_CHECK(cudaGraphLaunch(ranks.capture(0), ranks.streams[0]));
    ranks.sum(1);
    const std::string printed = ranks.failure();
    INFO(printed);
    CHECK(contains(printed, "operation 0, captured as its number 1,"));
    CHECK(contains(printed, " where rank "));
    abort_all(comms);
  });
}

TEST_CASE("fake NCCL graphs: graphs of different captures do not fit each other") {
  for (const bool same_order : {true, false}) {
    const FreshFake fake;
    on_ranks_of_one_thread([same_order](const Communicators& comms) {
      TwoRanks ranks(comms);
      const cudaGraphExec_t first[] = {ranks.capture(0), ranks.capture(0)};
      const cudaGraphExec_t second[] = {ranks.capture(1), ranks.capture(1)};
      for (int i = 0; i < 2; ++i) {
        CUDA_CHECK(cudaGraphLaunch(first[i], ranks.streams[0]));
        CUDA_CHECK(cudaGraphLaunch(second[same_order ? i : 1 - i], ranks.streams[1]));
      }
      if (same_order) {
        CHECK(read(ranks.values[0], 1, ranks.streams[0])[0] == 4);
        for (const auto& graphs : {first, second}) {
          for (int i = 0; i < 2; ++i) CUDA_CHECK(cudaGraphExecDestroy(graphs[i]));
        }
      } else {
        const std::string printed = ranks.failure();
        INFO(printed);
        CHECK(contains(printed, "captured as its number 1,"));
        CHECK(contains(printed, "captured as its number 2,"));
      }
      abort_all(comms);
    });
  }
}

TEST_CASE("fake NCCL graphs: calls that are captured and calls that are not follow each other") {
  for (const char* seed : {"1", "2", "3"}) {
    const FreshFake fake("SEED", seed);
    on_ranks(2, [](int, ncclComm_t comm) {
      const cudaStream_t stream = make_stream();
      float* value = device_values(1);
      fill(stream, value, 1, 1);
      const cudaGraphExec_t graph = captured(stream, [&] { all_reduce(comm, stream, value); });
      all_reduce(comm, stream, value);
      CUDA_CHECK(cudaGraphLaunch(graph, stream));
      all_reduce(comm, stream, value);
      CUDA_CHECK(cudaGraphLaunch(graph, stream));
      CHECK(read(value, 1, stream)[0] == 16);
      CUDA_CHECK(cudaGraphExecDestroy(graph));
    });
  }
}

TEST_CASE("fake NCCL graphs: an abort returns when the graphs of its communicator are gone") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    TwoRanks ranks(comms);
    const cudaGraphExec_t graph = ranks.capture(0);
    CUDA_CHECK(cudaGraphLaunch(graph, ranks.streams[0]));  // rank 1 does not come
    std::atomic<bool> returned = false;
    std::thread aborting([&] {
      NCCL_CHECK(ncclCommAbort(comms[0]));
      returned = true;
    });
    CUDA_CHECK(cudaStreamSynchronize(ranks.streams[0]));  // the abort has ended the wait
    CHECK_FALSE(returned.load());
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    aborting.join();
    CHECK(returned.load());
    NCCL_CHECK(ncclCommAbort(comms[1]));
  });
}

TEST_CASE("fake NCCL graphs: the last abort waits for the graphs of the other communicators") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    TwoRanks ranks(comms);
    const cudaGraphExec_t graph = ranks.capture(1);
    const auto wait_until_aborted = [](ncclComm_t comm) {
      ncclResult_t error = ncclSuccess;
      while (ncclCommGetAsyncError(comm, &error) != ncclInvalidArgument) std::this_thread::yield();
    };
    std::thread first([&] { NCCL_CHECK(ncclCommAbort(comms[1])); });
    wait_until_aborted(comms[1]);
    std::atomic<bool> returned = false;
    std::thread last([&] {
      NCCL_CHECK(ncclCommAbort(comms[0]));  // has no graph of its own
      returned = true;
    });
    wait_until_aborted(comms[0]);
    for (int i = 0; i < 1000; ++i) CUDA_CHECK(cudaStreamSynchronize(ranks.streams[0]));
    CHECK_FALSE(returned.load());
    CUDA_CHECK(cudaGraphExecDestroy(graph));
    first.join();
    last.join();
  });
}

TEST_CASE("fake NCCL graphs: destroying a communicator before its graphs is a deadlock") {
  const FreshFake fake("DEADLOCK_MS", "50");
  const ncclUniqueId id = unique_id();
  ncclComm_t comm = nullptr;
  NCCL_REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, nullptr));
  const cudaStream_t stream = make_stream();
  float* value = device_values(1);
  captured(stream, [&] { all_reduce(comm, stream, value); });
  printed_by([comm] { CHECK(ncclCommDestroy(comm) == ncclInternalError); });
}

TEST_CASE("fake NCCL graphs: a capture waits for calls in progress, and a call for those before") {
  const FreshFake fake;
  const ncclUniqueId id = unique_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclInProgress;
  const auto settle = [&] {
    state = ncclInProgress;
    while (state == ncclInProgress) NCCL_REQUIRE(ncclCommGetAsyncError(comm, &state));
  };
  settle();
  const cudaStream_t stream = make_stream();
  float* value = device_values(1);
  const auto sum = [&] {
    return ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm, stream);
  };
  const cudaGraphExec_t graph = captured(stream, [&] {
    CHECK(sum() == ncclInProgress);
    CHECK(sum() == ncclInvalidUsage);
    CHECK(contains(ncclGetLastError(comm), "before the previous operation returned ncclSuccess"));
    settle();
    CHECK(sum() == ncclInProgress);
    settle();
  });
  CHECK(state == ncclSuccess);
  CUDA_CHECK(cudaGraphExecDestroy(graph));
  // The graph would be without the call.
  const std::string printed = printed_by([&] {
    CUDA_CHECK(cudaGraphExecDestroy(captured(stream, [&] { CHECK(sum() == ncclInProgress); })));
    settle();
  });
  CHECK(state == ncclUnhandledCudaError);
  CHECK(contains(printed, "a capture began or ended while all-reduce"));
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

}  // namespace trainer::test
