// The gradient of a call from those of its parts, in flat float32 buffers on the device.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/runtime.h"

namespace trainer::backend::cuda {

// Buffers of `count` floats that are taken and given back in stream order. A new one is zeros: the
// gaps between parameters, which no part writes, are summed too.
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

// The most buffers that sum_in_tree takes at once.
std::size_t levels_of(std::int64_t parts);

// Sums `parts` buffers of `count` floats, a power of two of them, in a binary tree: `make(i, to)`
// enqueues part i. The result is a buffer of the pool, which the caller gives back.
float* sum_in_tree(std::int64_t parts, std::int64_t count, FlatBufferPool& pool,
                   const std::function<void(std::int64_t part, float* to)>& make,
                   cudaStream_t stream);

// values = the sum over the ranks, a power of two of them, in a binary tree: the same bits on every
// rank, and those of sum_in_tree over the parts of all ranks. `gathered` holds size() * count
// floats.
void sum_ranks_in_tree(CudaCollective& ranks, float* values, float* gathered, std::int64_t count,
                       cudaStream_t stream);

}  // namespace trainer::backend::cuda
