// Sums over ranks with a device each, by NCCL.
// Reasons: lib/decisions/backend.md#nccl-blocks-and-is-aborted-from-another-thread.
#pragma once

#include <chrono>
#include <memory>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/collectives/rank_group.h"

namespace trainer::backend::cuda {

// Collective. `ranks` must outlive it.
std::unique_ptr<CudaCollective> make_nccl_collective(RankGroup group, cluster::Communicator& ranks,
                                                     std::chrono::milliseconds timeout);

}  // namespace trainer::backend::cuda
