#include "backend/cuda/collectives/collective.h"

#include <stdexcept>

#include "backend/cuda/collectives/rank_group.h"
#include "backend/cuda/runtime.h"
#include "backend/cuda/stream.h"
#include "base/error.h"

namespace trainer::backend::cuda {

void CudaCollective::all_reduce(Span values, std::int64_t count, Stream& stream) {
  all_reduce(pointer_to<float>(values), count, dynamic_cast<CudaStream&>(stream).handle());
}

std::string CudaCollective::named_work() const {
  const char* what = work_.load(std::memory_order_relaxed);
  if (what == nullptr) return "";
  return concat(", summing ", what, " in step ", update_.load(std::memory_order_relaxed));
}

CudaCollective* cuda_collective(Collective* collective) {
  if (collective == nullptr) return nullptr;
  if (CudaCollective* on_gpus = collective->on_gpus()) return on_gpus;
  throw std::logic_error("the CUDA backend cannot sum over ranks of another backend");
}

std::unique_ptr<CudaCollective> make_cuda_collective(cluster::Communicator& ranks, int device,
                                                     std::chrono::milliseconds timeout) {
  RankGroup group = meet(ranks, device);
  if (group.on_one_device()) return make_shared_device_collective(std::move(group), timeout);
  return make_nccl_collective(std::move(group), ranks, timeout);
}

}  // namespace trainer::backend::cuda
