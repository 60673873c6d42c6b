// The collectives that a device's work may wait in.
#pragma once

#include <mutex>
#include <vector>

namespace trainer::backend::cuda {

class CudaCollective;

// A host thread that waits for the device checks the peers meanwhile, so that a wait for ranks that
// are gone ends. Any thread may call the members.
class PeerWatch {
 public:
  // Adds a collective. Ignores a collective of one rank, which waits for no other rank.
  void add(CudaCollective* collective);
  void remove(CudaCollective* collective);
  // Returns whether there is a collective. Otherwise the work of the device waits for no peer.
  bool is_needed() const;
  // Throws the error that ended one of the collectives.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::vector<CudaCollective*> collectives_;
};

}  // namespace trainer::backend::cuda
