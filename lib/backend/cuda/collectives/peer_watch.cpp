#include "backend/cuda/collectives/peer_watch.h"

#include "backend/cuda/collectives/collective.h"

namespace trainer::backend::cuda {

void PeerWatch::add(CudaCollective* collective) {
  const std::lock_guard lock(mutex_);
  if (collective->size() > 1) collectives_.push_back(collective);
}

void PeerWatch::remove(CudaCollective* collective) {
  const std::lock_guard lock(mutex_);
  std::erase(collectives_, collective);
}

bool PeerWatch::is_needed() const {
  const std::lock_guard lock(mutex_);
  return !collectives_.empty();
}

void PeerWatch::check() const {
  const std::lock_guard lock(mutex_);
  for (CudaCollective* collective : collectives_) collective->check();
}

}  // namespace trainer::backend::cuda
