// NCCL as the shared library of the system.
#include <dlfcn.h>

#include "backend/cuda/collectives/nccl.h"
#include "base/error.h"

namespace trainer::backend::cuda {
namespace {

constexpr char kFile[] = "libnccl.so.2";

template <class Function>
void find(void* library, const char* name, Function*& function) {
  ::dlerror();
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function != nullptr) return;
  const char* reason = ::dlerror();
  throw DeviceError(concat(kFile, " is too old for several GPUs: it has no function ", name, " (",
                           reason == nullptr ? "its address is 0" : reason,
                           "); install NCCL 2.18 or newer"));
}

NcclApi load() {
  // Never closed: its threads may outlive the groups.
  void* library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw DeviceError(concat("several GPUs need NCCL, and it cannot be opened: ", ::dlerror(),
                             "; install NCCL, add its folder to LD_LIBRARY_PATH, or train on one "
                             "GPU"));
  }
  NcclApi api;
  find(library, "ncclGetUniqueId", api.get_unique_id);
  find(library, "ncclCommInitRankConfig", api.init_rank);
  find(library, "ncclCommGetAsyncError", api.get_async_error);
  find(library, "ncclCommAbort", api.abort);
  find(library, "ncclAllReduce", api.all_reduce);
  find(library, "ncclAllGather", api.all_gather);
  find(library, "ncclGetErrorString", api.error_string);
  find(library, "ncclGetLastError", api.last_error);
  return api;
}

}  // namespace

const NcclApi& nccl() {
  static const NcclApi kApi = load();  // tried again by the next call when it throws
  return kApi;
}

}  // namespace trainer::backend::cuda
