// Sums over ranks that share one device in one process, which NCCL cannot make.
#pragma once

#include <chrono>
#include <memory>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/collectives/rank_group.h"

namespace trainer::backend::cuda {

// Every rank must be made one, by a thread of its own.
std::unique_ptr<CudaCollective> make_shared_device_collective(RankGroup group,
                                                              std::chrono::milliseconds timeout);

}  // namespace trainer::backend::cuda
