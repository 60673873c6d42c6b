// A CUDA runtime and NCCL that run on the CPU, with the signatures of cuda_runtime_api.h and
// nccl.h: programs link them in place of the real libraries. This header is what tests and other
// fakes use.
//
// What holds in it:
// - Work waits in its stream until a host thread waits or asks; then operations run one after the
//   other, in an order drawn from a seed among all that streams and events allow.
// - Device memory is inaccessible to the host except while an operation of its device runs, starts
//   as NaN, and stays inaccessible after it is freed. A wrong access ends the program with a
//   message.
// - Where the manuals leave a choice ("may synchronise"), the seed chooses.
// - In a build for the thread sanitizer each stream is a thread that only submission, events and
//   synchronisation order, so missing synchronisation is reported whatever the order was.
// - Memory calls wait for the devices that share a communicator: peers.cpp.
// - A call that puts work into a stream waits while the queue of the device is full: stream.cpp.
// - When no thread can make progress for a while, every stream's head is printed, and all calls
//   return cudaErrorLaunchTimeout from then on.
//
// Environment, read at the first call and by reset():
//   TRAINER_FAKE_CUDA_SEED         the order of operations; 1
//   TRAINER_FAKE_CUDA_EAGER        1: an operation runs as soon as it may, not as late
//   TRAINER_FAKE_CUDA_DEVICES      devices; 2, at most 16
//   TRAINER_FAKE_CUDA_CAPABILITIES compute capabilities of the devices, "3.5,9.0"; 9.0 for others
//   TRAINER_FAKE_CUDA_PEER_ACCESS  0: the devices of a communicator have none; 1
//   TRAINER_FAKE_CUDA_DRIVER       what cudaDriverGetVersion reports; CUDART_VERSION
//   TRAINER_FAKE_NCCL_VERSION      what ncclGetVersion reports; NCCL_VERSION_CODE
//   TRAINER_FAKE_CUDA_MEMORY       bytes of each device; 2 GiB
//   TRAINER_FAKE_CUDA_KERNEL_MEMORY      bytes that a kernel takes on a device from its first
//   launch
//                                  on; 0
//   TRAINER_FAKE_CUDA_CONNECTION_MEMORY  bytes that each rank of a communicator takes on its device
//                                  from its first call on; 0
//   TRAINER_FAKE_CUDA_QUEUE        operations that may wait in the streams of a device; 1024
//   TRAINER_FAKE_NCCL_CONNECT      1: the first call of a communicator waits for those of the other
//                                  ranks of this process; 0
//   TRAINER_FAKE_CUDA_DEADLOCK_MS  how long nothing may happen while a thread waits; 20000
//   TRAINER_FAKE_CUDA_FAIL         <function>[@<device>]:<n>:<error>[,...]: the n-th call of a
//                                  function, on any or on one device, counted from 1, returns the
//                                  error, a number or a name such as cudaErrorMemoryAllocation or
//                                  ncclSystemError; "hang": it never returns, and no other call of
//                                  the process does. NCCL's functions take no device; their
//                                  collectives take "wrong", which leaves half of the output zero,
//                                  and "endless", whose work on the device never ends
//   TRAINER_FAKE_NCCL_FOLDER       a folder through which ranks of several processes find each
//                                  other; without it NCCL's ranks are threads of one process
//   TRAINER_FAKE_CUDA_COUNT        1: the program prints count_memory_calls(),
//                                  devices_with_context() and the nodes of the largest graph that
//                                  it instantiated when it ends
//   TRAINER_FAKE_CUDA_CHECK        1: a program that leaves something unfreed prints it and ends
//                                  with exit code 86
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>

namespace fake {

// Appends work to a stream as a kernel launch does: the current device must be the stream's, and a
// stream that is being captured gets a node. `run` may touch memory of the stream's device, pinned
// memory and what it owns, calls nothing of CUDA, and is called once for each launch of a graph, on
// any host thread. A device takes `seconds` for it, by the model of Operation::ends. An exception
// ends it as a fault of a kernel does: cudaErrorLaunchFailure, sticky. Returns the error, which
// cudaGetLastError returns too.
constexpr double kSmallKernelSeconds = 5e-6;
cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> run,
                    double seconds = kSmallKernelSeconds);

// True if [address, address + bytes) lies in one allocation of device memory, of any device or of
// the one given.
bool is_device_memory(const void* address, std::size_t bytes);
bool is_device_memory(const void* address, std::size_t bytes, int device);

// The draw of all orders from here on.
void seed(unsigned value);

// Makes the n-th call of a function from here on fail, as TRAINER_FAKE_CUDA_FAIL does. Throws
// std::invalid_argument for an error that neither cuda_runtime_api.h nor nccl.h has.
void fail(const std::string& function, int n, const std::string& error);

// The calls of a function of CUDA since the start or reset().
long count_calls(const std::string& function);
// The calls that allocate or free memory, or instantiate or upload a graph, which do: those of
// wait_for_peers() (world.h).
long count_memory_calls();

// The devices on which the calls since the start or reset() have created a context.
std::set<int> devices_with_context();

// Allocations, streams, events, graphs and communicators that were not freed: their number, and a
// line for each.
std::size_t left_over();
std::string left_over_text();

// Forgets everything, frees what was left over and reads the environment again. No other thread may
// use the fake meanwhile, and no handle or address of before may be used after.
void reset();

}  // namespace fake
