// The collectives that a device's work may wait in.
#pragma once

#include <mutex>
#include <vector>

namespace trainer::backend::cuda {

class CudaCollective;

// A host thread that waits for the device checks the peers meanwhile, so that a wait for ranks that
// are gone ends. For any thread.
class PeerWatch {
 public:
  // A collective of one rank waits for nobody and is left out.
  void add(CudaCollective* collective);
  void remove(CudaCollective* collective);
  // Without a collective nothing but the device itself can delay its work.
  bool is_needed() const;
  // Throws the error that ended one of the collectives.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::vector<CudaCollective*> collectives_;
};

}  // namespace trainer::backend::cuda
