#include "backend/cuda/collectives/device_collectives.h"

#include "backend/cuda/collectives/collective.h"

namespace trainer::backend::cuda {

void DeviceCollectives::add(CudaCollective* collective) {
  const std::lock_guard lock(mutex_);
  collectives_.push_back(collective);
}

void DeviceCollectives::remove(CudaCollective* collective) {
  const std::lock_guard lock(mutex_);
  std::erase(collectives_, collective);
}

void DeviceCollectives::check() const {
  const std::lock_guard lock(mutex_);
  for (CudaCollective* collective : collectives_) collective->check();
}

}  // namespace trainer::backend::cuda
