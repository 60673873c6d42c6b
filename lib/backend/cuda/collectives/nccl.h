// NCCL's functions, which are looked up when the first group of several GPUs is made: one GPU needs
// no NCCL.
#pragma once

#include <nccl.h>

namespace trainer::backend::cuda {

struct NcclApi {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) get_async_error = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
};

// Returns the same table at every call. Thread-safe. Throws DeviceError that names what is missing.
const NcclApi& nccl();

}  // namespace trainer::backend::cuda
