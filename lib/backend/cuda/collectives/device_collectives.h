// The collectives that a device's work may wait in.
#pragma once

#include <mutex>
#include <vector>

namespace trainer::backend::cuda {

class CudaCollective;

// The failure of a group ends the work of its devices without results. A host thread that has
// waited for a device therefore calls check(). Any thread may call the members.
class DeviceCollectives {
 public:
  void add(CudaCollective* collective);
  void remove(CudaCollective* collective);
  // Throws the error that ended one of the collectives.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::vector<CudaCollective*> collectives_;
};

}  // namespace trainer::backend::cuda
