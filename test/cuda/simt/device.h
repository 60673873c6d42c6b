// What CUDA C++ has and C++ has not, for kernels that g++ compiles. Only kernels include this file.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "simt/simt.h"

#undef __global__
#undef __device__
#undef __launch_bounds__
#define __global__
#define __device__
#define __launch_bounds__(...)
#define threadIdx (*simt::place.thread)
#define blockIdx (simt::place.block)
#define blockDim (simt::place.block_dim)
#define gridDim (simt::place.grid_dim)

using std::isfinite;
using std::isnan;

namespace simt {

// A place in a kernel's source.
using Site = std::source_location;

// The running thread, its block and its grid. Kernels read them at every turn, so that they lie
// where an OS thread finds its own without a call, also in a library that is opened later.
struct Place {
  const uint3* thread = nullptr;
  uint3 block{};
  dim3 block_dim, grid_dim;
};
extern thread_local constinit Place place __attribute__((tls_model("initial-exec")));

// What the lanes of a warp gave a shuffle: value[i] is lane i's, valid for the lanes of `mask`.
struct Lanes {
  const std::uint64_t* value;
  unsigned mask, lane;
};
void barrier(Site at);
Lanes exchange(unsigned mask, std::uint64_t value, Site at);
[[noreturn]] void fail(const char* what, Site at);

// The dynamic shared memory of the running block.
void* shared_memory();

inline void check_aligned(const void* address, std::size_t alignment, Site at = Site::current()) {
  if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
    fail("an access that is not aligned to its size", at);
  }
}

}  // namespace simt

inline void __syncthreads(simt::Site at = simt::Site::current()) { simt::barrier(at); }

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int = 32,
                  simt::Site at = simt::Site::current()) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const simt::Lanes lanes = simt::exchange(mask, bits, at);
  const unsigned from = lanes.lane ^ static_cast<unsigned>(lane_mask);
  if (from > 31) return value;
  if ((lanes.mask >> from & 1u) == 0)
    simt::fail("a shuffle that reads a lane outside its mask", at);
  std::memcpy(&value, &lanes.value[from], sizeof value);
  return value;
}
