// Communicators for tests.
#pragma once

#include <nccl.h>

#include <functional>
#include <vector>

#include "cuda/fake_runtime/test/support.h"

namespace trainer::test {

#define NCCL_CHECK(call) CHECK_MESSAGE((call) == ncclSuccess, "failed: " #call)
#define NCCL_REQUIRE(call) REQUIRE_MESSAGE((call) == ncclSuccess, "failed: " #call)

using Communicators = std::vector<ncclComm_t>;

ncclUniqueId unique_id();
// Runs each rank on a thread and a device of its own, and destroys the communicators.
void on_ranks(int ranks, const std::function<void(int, ncclComm_t)>& run);
// Two ranks on this thread, whose current device is 0. Does not destroy the communicators.
void on_ranks_of_one_thread(const std::function<void(const Communicators&)>& run);
void abort_all(const Communicators& comms);

}  // namespace trainer::test
