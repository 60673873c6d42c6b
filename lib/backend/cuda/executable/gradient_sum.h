// The gradient of a call from those of its parts, in flat float32 buffers on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

// Buffers of `count` floats that are taken and given back in stream order. A new one is zeros. The
// gaps between parameters and the gradients that are always zero (lower/zero_gradient.cpp) are
// summed too, and nothing writes them.
class FlatBufferPool {
 public:
  FlatBufferPool(int device, std::int64_t count) : device_(device), count_(count) {}
  float* take();
  // Makes `buffers` of them at once.
  void reserve(std::size_t buffers);
  void give_back(float* buffer) { free_.push_back(buffer); }
  std::int64_t bytes() const;

 private:
  int device_;
  std::int64_t count_;
  std::vector<Buffer> owned_;
  std::vector<float*> free_;
};

// Sums the leaves [first, last) of the tree of base/numbers/sum_tree.h: `make(leaf, to)` enqueues
// the gradient of a leaf, `count` floats. Returns the roots of these leaves, in buffers of the
// pool, which the caller gives back. At most max_waiting_roots() + 1 buffers are in use at once.
std::vector<float*> sum_in_tree(std::int64_t first, std::int64_t last, std::int64_t count,
                                FlatBufferPool& pool,
                                const std::function<void(std::int64_t leaf, float* to)>& make,
                                cudaStream_t stream);

// Sets roots[0] to the sum over the tree of `leaves` leaves, which has the same bits on every rank
// and for any number of ranks. `roots` are those of this rank's own leaves, `count` floats each.
// `gathered` holds ranks.size() * max_rank_roots() * count floats.
void sum_ranks_in_tree(CudaCollective& ranks, std::int64_t leaves, const std::vector<float*>& roots,
                       float* gathered, std::int64_t count, cudaStream_t stream);

}  // namespace trainer::backend::cuda
