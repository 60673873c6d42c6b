#include <nccl.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "cuda/fake_runtime/test/nccl_support.h"

namespace trainer::test {

TEST_CASE("fake NCCL: an all-reduce sums what all ranks have, in place or not") {
  const FreshFake fake("DEVICES", "4");
  on_ranks(4, [](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* in = device_values(1000);
    float* out = device_values(1000);
    fill(stream, in, 1000, static_cast<float>(rank + 1));
    NCCL_CHECK(ncclAllReduce(in, out, 1000, ncclFloat32, ncclSum, comm, stream));
    NCCL_CHECK(ncclAllReduce(in, in, 1000, ncclFloat32, ncclMax, comm, stream));
    for (const float value : read(out, 1000, stream)) CHECK(value == 10);
    for (const float value : read(in, 1000, stream)) CHECK(value == 4);
  });
}

TEST_CASE("fake NCCL: all ranks get the same bits, and not those of a sum in rank order") {
  const FreshFake fake("DEVICES", "3");
  const float parts[] = {1e8f, 1.f, -1e8f};
  std::vector<std::vector<float>> results(3);
  on_ranks(3, [&](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* values = device_values(256);
    fill(stream, values, 256, parts[rank]);
    NCCL_CHECK(ncclAllReduce(values, values, 256, ncclFloat32, ncclSum, comm, stream));
    results[static_cast<std::size_t>(rank)] = read(values, 256, stream);
  });
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
  const float in_rank_order = parts[0] + parts[1] + parts[2];
  CHECK(std::any_of(results[0].begin(), results[0].end(),
                    [&](float value) { return value != in_rank_order; }));
}

TEST_CASE("fake NCCL: the first call of a rank takes memory until its communicator is destroyed") {
  const FreshFake fake("CONNECTION_MEMORY", "1000000");
  const auto free = [] {
    std::size_t bytes = 0, total = 0;
    CUDA_REQUIRE(cudaMemGetInfo(&bytes, &total));
    return bytes;
  };
  const std::size_t before = free();
  on_ranks(2, [&](int, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* values = device_values(1);
    fill(stream, values, 1, 1);
    const std::size_t joined = free();
    NCCL_CHECK(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm, stream));
    NCCL_CHECK(ncclAllReduce(values, values, 1, ncclFloat32, ncclSum, comm, stream));
    CHECK(free() == joined - 1'000'000);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaFree(values));
  });
  CHECK(free() == before);
}

TEST_CASE("fake NCCL: 16-bit values and averages are summed") {
  const FreshFake fake;
  on_ranks(2, [](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    auto* halves = reinterpret_cast<std::uint16_t*>(device_values(2));
    const std::uint16_t half = rank == 0 ? 0x3C00 : 0x4200;   // 1 and 3
    const std::uint16_t brain = rank == 0 ? 0x3F80 : 0x4040;  // 1 and 3
    CUDA_CHECK(cudaMemcpyAsync(halves, &half, 2, cudaMemcpyHostToDevice, stream));
    CUDA_CHECK(cudaMemcpyAsync(halves + 1, &brain, 2, cudaMemcpyHostToDevice, stream));
    NCCL_CHECK(ncclAllReduce(halves, halves, 1, ncclFloat16, ncclSum, comm, stream));
    NCCL_CHECK(ncclAllReduce(halves + 1, halves + 1, 1, ncclBfloat16, ncclAvg, comm, stream));
    std::uint16_t result[2] = {};
    CUDA_CHECK(cudaMemcpyAsync(result, halves, 4, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CHECK(result[0] == 0x4400);  // 4
    CHECK(result[1] == 0x4000);  // 2
  });
}

TEST_CASE("fake NCCL: a broadcast and an all-gather are done in place") {
  const FreshFake fake("DEVICES", "3");
  on_ranks(3, [](int rank, ncclComm_t comm) {
    const cudaStream_t stream = make_stream();
    float* values = device_values(4);
    float* all = device_values(12);
    fill(stream, values, 4, static_cast<float>(rank));
    NCCL_CHECK(ncclBroadcast(values, values, 16, ncclUint8, 2, comm, stream));
    for (const float value : read(values, 4, stream)) CHECK(value == 2);
    float* mine = all + 4 * rank;
    fill(stream, mine, 4, static_cast<float>(rank));
    NCCL_CHECK(ncclAllGather(mine, all, 4, ncclFloat32, comm, stream));
    const std::vector<float> result = read(all, 12, stream);
    for (std::size_t i = 0; i < 12; ++i) CHECK(result[i] == static_cast<float>(i / 4));
  });
}

TEST_CASE("fake NCCL: a call returns before the other ranks come") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t first = make_stream();
    float* a = device_values(1);
    fill(first, a, 1, 1);
    NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], first));
    CHECK(cudaStreamQuery(first) == cudaErrorNotReady);
    CUDA_REQUIRE(cudaSetDevice(1));
    const cudaStream_t second = make_stream();
    float* b = device_values(1);
    fill(second, b, 1, 2);
    NCCL_CHECK(ncclAllReduce(b, b, 1, ncclFloat32, ncclSum, comms[1], second));
    CHECK(read(b, 1, second)[0] == 3);
    CUDA_REQUIRE(cudaSetDevice(0));
    CHECK(read(a, 1, first)[0] == 3);
  });
}

TEST_CASE("fake NCCL: buffers are undefined while a collective runs") {
  if (kThreadSanitizer) TRAINER_SKIP("what it does is a race, which ThreadSanitizer reports");
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    const cudaStream_t stream = make_stream(), other = make_stream();
    float* a = device_values(1);
    float* seen = pinned_values(1);
    *seen = 1;
    fill(stream, a, 1, 1);
    CUDA_CHECK(cudaStreamSynchronize(stream));
    NCCL_CHECK(ncclAllReduce(a, a, 1, ncclFloat32, ncclSum, comms[0], stream));
    for (int i = 0; i < 100; ++i) CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    CUDA_CHECK(cudaMemcpyAsync(seen, a, 4, cudaMemcpyDeviceToHost, other));
    CUDA_CHECK(cudaStreamSynchronize(other));
    CHECK(std::isnan(*seen));
    abort_all(comms);
  });
}

TEST_CASE("fake NCCL: collectives in graphs are done at each launch") {
  for (const char* seed : {"1", "2"}) {
    const FreshFake fake("SEED", seed);
    on_ranks(2, [](int rank, ncclComm_t comm) {
      const cudaStream_t stream = make_stream();
      float* value = device_values(1);
      fill(stream, value, 1, static_cast<float>(rank + 1));
      const cudaGraphExec_t graph = captured(stream, [&] {
        NCCL_CHECK(ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm, stream));
      });
      for (int i = 0; i < 3; ++i) CUDA_CHECK(cudaGraphLaunch(graph, stream));
      CHECK(read(value, 1, stream)[0] == 12);
      CUDA_CHECK(cudaGraphExecDestroy(graph));
    });
  }
}

TEST_CASE("fake NCCL: one thread leads several ranks by groups") {
  const FreshFake fake;
  on_ranks_of_one_thread([](const Communicators& comms) {
    float* values[2];
    cudaStream_t streams[2];
    for (int r = 0; r < 2; ++r) {
      CUDA_REQUIRE(cudaSetDevice(r));
      streams[r] = make_stream();
      values[r] = device_values(1);
      fill(streams[r], values[r], 1, 2);
    }
    NCCL_CHECK(ncclGroupStart());
    for (int r = 0; r < 2; ++r) {
      NCCL_CHECK(ncclAllReduce(values[r], values[r], 1, ncclFloat32, ncclProd,
                               comms[static_cast<std::size_t>(r)], streams[r]));
    }
    NCCL_CHECK(ncclGroupEnd());
    CHECK(read(values[0], 1, streams[0])[0] == 4);
  });
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("fake NCCL: a communicator that does not block is ncclInProgress until it is ready") {
  const FreshFake fake;
  const ncclUniqueId id = unique_id();
  const auto wait_until_ready = [](ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclSuccess);
  };
  const auto run_rank = [&](int rank) {
    CUDA_REQUIRE(cudaSetDevice(rank));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress);
    wait_until_ready(comm);
    const cudaStream_t stream = make_stream();
    float* value = device_values(1);
    fill(stream, value, 1, 1);
    CHECK(ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm, stream) == ncclInProgress);
    CHECK(read(value, 1, stream)[0] == 1);  // nothing is in the stream yet
    wait_until_ready(comm);
    CHECK(read(value, 1, stream)[0] == 2);
    NCCL_CHECK(ncclCommDestroy(comm));
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
}

TEST_CASE("fake NCCL: the version is that of the header") {
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version));
  CHECK(version == NCCL_VERSION_CODE);
}

}  // namespace trainer::test
