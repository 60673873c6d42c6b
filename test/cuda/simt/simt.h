// Runs CUDA kernels that g++ compiled: every thread of a block is a fiber on one OS thread, blocks
// run one after another, and the order of warps, lanes and blocks is drawn from a seed.
//
// Follows the CUDA C++ Programming Guide, "C++ Language Extensions": "Synchronization Functions"
// (__syncthreads() is allowed in code that all threads of a block reach alike), "Warp Shuffle
// Functions" (each lane of the mask must call the same shuffle with the same mask) and "Built-in
// Variables"; "Thread Hierarchy" (blocks may run in any order); "Hardware Implementation",
// "Independent Thread Scheduling" (threads of a warp may run apart between barriers and shuffles);
// and, for vector accesses, "Device Memory Accesses", "Size and Alignment Requirement".
//
// Detected while a kernel runs: barriers that some threads of a block do not reach or reach at
// different places; shuffles that some lanes of their mask do not reach; vector accesses that are
// not aligned. With AddressSanitizer also accesses outside of buffers and of dynamic shared memory,
// with ThreadSanitizer also races between the threads of a block: each fiber is a thread to it, and
// only barriers and shuffles order them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace simt {

// What a kernel must not do: "file:line: what happened, in kernel K, block (x, y, z), ...".
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Gives the stream a kernel; `thread` is what each thread of the grid runs. Declared here, defined
// by the program: kernel tests call run_grid() at once, the fake runtime when the stream gets
// there.
void launch(cudaStream_t stream, const char* kernel, dim3 grid, dim3 block,
            std::size_t shared_bytes, std::function<void()> thread);

// Runs all blocks of a grid on the calling OS thread and returns. Dynamic shared memory is filled
// with NaN before each block. Throws Error; the kernel's other threads are then abandoned.
void run_grid(const char* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread);

// The device's clock for kernels that this OS thread runs from now on; the fake runtime sets it.
inline thread_local constinit std::uint64_t nanoseconds = 0;

// Seeds the order of the grids that this OS thread runs from now on.
void set_seed(std::uint64_t seed);

}  // namespace simt
