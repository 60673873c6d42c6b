// What happens when ranks do not do the same.
#include <nccl.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

#include "cuda/fake_runtime/test/nccl_support.h"

namespace trainer::test {

TEST_CASE("fake NCCL failures: calls that do not fit each other are reported") {
  struct Difference {
    std::size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
  };
  for (const Difference d :
       {Difference{3, ncclFloat32, ncclSum}, {4, ncclInt32, ncclSum}, {4, ncclFloat32, ncclMax}}) {
    const FreshFake fake;
    on_ranks_of_one_thread([&](const Communicators& comms) {
      const cudaStream_t first = make_stream();
      float* a = device_values(4);
      NCCL_CHECK(ncclAllReduce(a, a, 4, ncclFloat32, ncclSum, comms[0], first));
      CUDA_REQUIRE(cudaSetDevice(1));
      const cudaStream_t second = make_stream();
      float* b = device_values(4);
      NCCL_CHECK(ncclAllReduce(b, b, d.count, d.type, d.op, comms[1], second));
      const std::string printed =
          printed_by([first] { CHECK(cudaStreamSynchronize(first) == cudaErrorLaunchFailure); });
      CHECK(contains(printed, "calls all-reduce of 4 elements of type 7 by operation 0"));
      ncclResult_t errors[2] = {};
      for (std::size_t r = 0; r < 2; ++r) NCCL_CHECK(ncclCommGetAsyncError(comms[r], &errors[r]));
      const bool reported = errors[0] == ncclInvalidUsage || errors[1] == ncclInvalidUsage;
      CHECK(reported);
      CHECK(contains(ncclGetLastError(comms[0]), "calls all-reduce of"));
      abort_all(comms);
    });
  }
}

TEST_CASE("fake NCCL failures: a rank that does not come is a deadlock with a report") {
  const FreshFake fake("DEADLOCK_MS", "50");
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(7);
    NCCL_CHECK(ncclAllReduce(a, a, 7, ncclFloat32, ncclSum, comms[0], stream));
    fill(stream, a, 7, 1);
    const std::string printed =
        printed_by([stream] { CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchTimeout); });
    INFO(printed);
    CHECK(contains(printed, "no thread can make progress for 50 ms"));
    CHECK(contains(printed,
                   "device 0, stream 1: 2 operations, the first is 'all-reduce of 7 "
                   "elements of type 7 by operation 0 on rank 0', which waits for rank 1"));
    CHECK(cudaStreamQuery(stream) == cudaErrorLaunchTimeout);
    abort_all(comms);
  });
}

TEST_CASE("fake NCCL failures: repeated queries of a thread are an error in a deadlock") {
  const FreshFake fake("DEADLOCK_MS", "50");
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(7);
    const cudaGraphExec_t graph = captured(stream, [&] {
      NCCL_CHECK(ncclAllReduce(a, a, 7, ncclFloat32, ncclSum, comms[0], stream));
    });
    CUDA_CHECK(cudaGraphLaunch(graph, stream));
    cudaError_t status = cudaErrorNotReady;
    const std::string printed = printed_by([&] {
      while (status == cudaErrorNotReady) status = cudaStreamQuery(stream);
    });
    CHECK(status == cudaErrorLaunchTimeout);
    CHECK(contains(printed, "device 0, a graph: 'all-reduce of 7 elements"));
    abort_all(comms);
  });
}

TEST_CASE("fake NCCL failures: waits while another thread works are not a deadlock") {
  const FreshFake fake("DEADLOCK_MS", "300");
  on_ranks(2, [](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(1);
    // One rank keeps its device busy for longer than a deadlock takes.
    for (int i = 0; i < 5 && rank == 0; ++i) {
      CUDA_CHECK(fake::enqueue(stream, "a slow kernel", [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }));
    }
    NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comm, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
  });
}

TEST_CASE("fake NCCL failures: an abort ends this rank's operations and not those of others") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(1);
    fill(stream, a, 1, 1);
    NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream));
    NCCL_CHECK(ncclCommAbort(comms[1]));
    for (int i = 0; i < 50; ++i) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    ncclResult_t error = ncclSystemError;
    NCCL_CHECK(ncclCommGetAsyncError(comms[0], &error));
    CHECK(error == ncclSuccess);
    NCCL_CHECK(ncclCommAbort(comms[0]));
    std::atomic<bool> ran = false;
    CUDA_CHECK(fake::enqueue(stream, "the next", [&ran] { ran = true; }));
    CHECK(std::isnan(read(a, 1, stream)[0]));
    CHECK(ran.load());
    CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream) == ncclInvalidArgument);
    CHECK(ncclCommAbort(comms[0]) == ncclInvalidArgument);
  });
}

TEST_CASE("fake NCCL failures: a rank that waits is freed by an abort on another thread") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(1);
    NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream));
    std::thread waiting([stream] { CUDA_CHECK(cudaStreamSynchronize(stream)); });
    NCCL_CHECK(ncclCommAbort(comms[0]));
    waiting.join();
    NCCL_CHECK(ncclCommAbort(comms[1]));
  });
}

TEST_CASE("fake NCCL failures: a first call that connects waits for the others or for an abort") {
  const FreshFake fake("DEADLOCK_MS", "2000");
  setenv("TRAINER_FAKE_NCCL_CONNECT", "1", 1);
  fake::reset();
  unsetenv("TRAINER_FAKE_NCCL_CONNECT");
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(1);
    ncclResult_t result = ncclSuccess;
    std::thread caller([&] {
      CUDA_CHECK(cudaSetDevice(0));
      result = ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream);
    });
    while (fake::count_calls("ncclAllReduce") < 1) std::this_thread::yield();
    CUDA_CHECK(cudaStreamSynchronize(stream));  // the call has put nothing into it
    NCCL_CHECK(ncclCommAbort(comms[0]));
    caller.join();
    CHECK(result == ncclInternalError);
    NCCL_CHECK(ncclCommAbort(comms[1]));
  });
  on_ranks(2, [](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* a = device_values(1);
    fill(stream, a, 1, static_cast<float>(rank));
    for (int i = 0; i < 2; ++i) {
      NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comm, stream));
    }
    CHECK(read(a, 1, stream)[0] == 2);
  });
}

TEST_CASE("fake NCCL failures: an initialisation whose ranks do not come waits until reset()") {
  const FreshFake fake("DEADLOCK_MS", "50");
  const ncclUniqueId id = unique_id();
  ncclComm_t comm = nullptr;
  std::atomic<bool> returned = false;
  std::thread waiting([&] {
    CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, nullptr) == ncclInternalError);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // four times a deadlock's time
  CHECK_FALSE(returned.load());
  CHECK(fake::left_over() == 0);
  fake::reset();
  waiting.join();
}

TEST_CASE("fake NCCL failures: destroying waits for the other ranks") {
  const FreshFake fake("DEADLOCK_MS", "50");
  on_ranks_of_one_thread([](const Communicators& comms) {
    printed_by([&comms] { CHECK(ncclCommDestroy(comms[0]) == ncclInternalError); });
  });
  fake::reset();
  on_ranks_of_one_thread([](const Communicators& comms) {
    NCCL_CHECK(ncclGroupStart());
    for (const ncclComm_t comm : comms) NCCL_CHECK(ncclCommDestroy(comm));
    NCCL_CHECK(ncclGroupEnd());
    CHECK(fake::left_over() == 0);
  });
}

TEST_CASE("fake NCCL failures: a device or a rank twice in a communicator is an error") {
  const FreshFake fake;
  const ncclUniqueId id = unique_id();
  ncclComm_t comm = nullptr, other = nullptr;
  NCCL_REQUIRE(ncclGroupStart());
  NCCL_CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, nullptr));
  CHECK(ncclCommInitRankConfig(&other, 2, id, 1, nullptr) == ncclInvalidUsage);
  CHECK(contains(ncclGetLastError(nullptr), "Duplicate GPU detected"));
  CUDA_REQUIRE(cudaSetDevice(1));
  CHECK(ncclCommInitRankConfig(&other, 2, id, 0, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&other, 3, id, 1, nullptr) == ncclInvalidArgument);
  NCCL_CHECK(ncclCommInitRankConfig(&other, 2, id, 1, nullptr));
  NCCL_CHECK(ncclGroupEnd());
  abort_all({comm, other});
}

TEST_CASE("fake NCCL failures: buffers must be memory of the communicator's device") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream();
    float* mine = device_values(4);
    float* pinned = pinned_values(4);
    CUDA_REQUIRE(cudaSetDevice(1));
    float* other = device_values(4);
    const auto sum = [&](const float* from, float* to, std::size_t count) {
      return ncclAllReduce(from, to, count, ncclFloat32, ncclSum, comms[0], stream);
    };
    CHECK(sum(mine, other, 4) == ncclInvalidArgument);
    CHECK(sum(pinned, mine, 4) == ncclInvalidArgument);
    CHECK(sum(mine, mine, 5) == ncclInvalidArgument);
    CHECK(ncclAllGather(mine, mine, 4, ncclFloat32, comms[0], stream) == ncclInvalidArgument);
    CHECK(ncclAllReduce(mine, mine, 4, ncclFloat32, ncclSum, comms[0], make_stream()) ==
          ncclUnhandledCudaError);  // a stream of device 1
    NCCL_CHECK(sum(mine, mine, 0));
    abort_all(comms);
  });
}

TEST_CASE("fake NCCL failures: errors that a test asks for are returned") {
  const FreshFake fake("FAIL", "ncclGetUniqueId:1:ncclSystemError");
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSystemError);
  NCCL_CHECK(ncclGetUniqueId(&id));
  fake::fail("ncclAllReduce", 1, "ncclRemoteError");
  fake::fail("ncclCommGetAsyncError", 2, "ncclRemoteError");
  on_ranks_of_one_thread([](const Communicators& comms) {
    float* a = device_values(1);
    const cudaStream_t stream = make_stream();
    CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream) == ncclRemoteError);
    ncclResult_t state = ncclInProgress;
    NCCL_CHECK(ncclCommGetAsyncError(comms[0], &state));
    CHECK(state == ncclSuccess);
    for (int i = 0; i < 2; ++i) {
      NCCL_CHECK(ncclCommGetAsyncError(comms[0], &state));
      CHECK(state == ncclRemoteError);
    }
    abort_all(comms);
  });
}

}  // namespace trainer::test
