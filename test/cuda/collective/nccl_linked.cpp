// The functions of the fake NCCL, which is linked, in place of
// lib/backend/cuda/collectives/nccl_load.cpp.
#include "backend/cuda/collectives/nccl.h"

namespace trainer::backend::cuda {

const NcclApi& nccl() {
  static const NcclApi api{ncclGetVersion,        ncclGetUniqueId,    ncclCommInitRankConfig,
                           ncclCommGetAsyncError, ncclCommAbort,      ncclAllReduce,
                           ncclAllGather,         ncclGetErrorString, ncclGetLastError};
  return api;
}

}  // namespace trainer::backend::cuda
