// NCCL as the shared library of the system.
#include "backend/cuda/collectives/nccl.h"
#include "backend/shared_library.h"

namespace trainer::backend::cuda {
namespace {

NcclApi load() {
  const SharedLibrary library(
      {"libnccl.so.2", "several GPUs need NCCL, and it cannot be opened",
       "install NCCL, add its folder to LD_LIBRARY_PATH, or train on one GPU",
       "is too old for several GPUs: it has no function", "install NCCL 2.18 or newer"});
  NcclApi api;
  library.require("ncclGetUniqueId", api.get_unique_id);
  library.require("ncclCommInitRankConfig", api.init_rank);
  library.require("ncclCommGetAsyncError", api.get_async_error);
  library.require("ncclCommAbort", api.abort);
  library.require("ncclAllReduce", api.all_reduce);
  library.require("ncclAllGather", api.all_gather);
  library.require("ncclGetErrorString", api.error_string);
  library.require("ncclGetLastError", api.last_error);
  library.require("ncclGetVersion", api.get_version);
  return api;
}

}  // namespace

const NcclApi& nccl() {
  static const NcclApi kApi = load();  // tried again by the next call when it throws
  return kApi;
}

}  // namespace trainer::backend::cuda
