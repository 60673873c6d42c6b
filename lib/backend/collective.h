// Sums over ranks, in stream order on device memory.
#pragma once

#include <cstdint>
#include <string>

#include "backend/device.h"
#include "cluster/communicator.h"

namespace trainer::backend {

namespace cuda {
class CudaCollective;
}

// A group of ranks with a device each. Every rank makes the same calls in the same order with the
// same sizes. The wait for a stream throws the error of a call on it, such as PeerError if a
// rank has exited or does not answer.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Sums `count` float32 values in place, with the same bits on every rank.
  virtual void all_reduce(Span values, std::int64_t count, Stream& stream) = 0;
  // Returns the ranks that sum values in host memory, or null where devices sum in memory of their
  // own. The pointer is valid as long as the collective.
  virtual cluster::Communicator* host_ranks() { return nullptr; }
  // Returns this collective if it sums in the memory of GPUs, and null otherwise.
  virtual cuda::CudaCollective* on_gpus() { return nullptr; }
  // Makes every waiting rank of this group throw PeerError with this reason. Thread-safe.
  virtual void abort(const std::string& reason) noexcept = 0;
};

}  // namespace trainer::backend
