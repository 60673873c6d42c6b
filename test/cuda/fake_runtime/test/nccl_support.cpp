#include "cuda/fake_runtime/test/nccl_support.h"

#include <thread>

namespace trainer::test {

ncclUniqueId unique_id() {
  ncclUniqueId id;
  NCCL_REQUIRE(ncclGetUniqueId(&id));
  return id;
}

void on_ranks(int ranks, const std::function<void(int, ncclComm_t)>& run) {
  const ncclUniqueId id = unique_id();
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&run, &id, ranks, r] {
      CUDA_CHECK(cudaSetDevice(r));
      ncclComm_t comm = nullptr;
      NCCL_CHECK(ncclCommInitRankConfig(&comm, ranks, id, r, nullptr));
      run(r, comm);
      NCCL_CHECK(ncclCommDestroy(comm));
    });
  }
  for (std::thread& t : threads) t.join();
}

void on_ranks_of_one_thread(const std::function<void(const Communicators&)>& run) {
  const ncclUniqueId id = unique_id();
  Communicators comms(2);
  NCCL_REQUIRE(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    CUDA_REQUIRE(cudaSetDevice(r));
    NCCL_REQUIRE(ncclCommInitRankConfig(&comms[static_cast<std::size_t>(r)], 2, id, r, nullptr));
  }
  NCCL_REQUIRE(ncclGroupEnd());
  CUDA_REQUIRE(cudaSetDevice(0));
  run(comms);
}

void abort_all(const Communicators& comms) {
  for (const ncclComm_t comm : comms) NCCL_CHECK(ncclCommAbort(comm));
}

}  // namespace trainer::test
