// The CUDA runtime with errors as exceptions. Only functions that
// test/cuda/plugin/symbols.py lists, which have fakes, are called anywhere in this folder.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "backend/device.h"
#include "base/host_buffer.h"

namespace trainer::backend::cuda {

// Returns "<name>: <text>" and, for some errors, what to do.
std::string describe_error(cudaError_t error);
// Throws DeviceError "GPU <n>: <what>: <describe_error()>; <describe_faults()>" unless the call
// succeeded. The GPU is the one that the thread has chosen, if any.
void check(cudaError_t status, const char* what);

// The number of a device that is not here and only planned for. Its memory is addresses that
// nothing may touch; its streams and events are null, and nothing is copied.
inline constexpr int kPlannedDevice = -2;

// Makes a device current on this thread for the lifetime of the guard, and afterwards the one that
// an outer guard had chosen, if there is one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_;
};

// Makes `device` current on a thread that has chosen no device, before the thread frees something
// of the device. The call that frees would otherwise create a context on GPU 0, which takes
// hundreds of MiB there. Ignores errors, and a negative device.
void choose_device(int device) noexcept;
// Returns the device that a guard or choose_device() made current on this thread, or -1.
int chosen_device() noexcept;

// Destroys an object of CUDA on any thread.
template <auto destroy>
struct DestroyOnDevice {
  int device = chosen_device();  // the device that the thread had chosen when it made the owner
  template <class T>
  void operator()(T* object) const noexcept {
    choose_device(device);
    destroy(object);
  }
};

// Must exist during each call that allocates or frees memory, or instantiates or uploads a graph.
// Such a call waits for the devices of all ranks of the process, and other threads cannot launch
// meanwhile.
class MemoryCall {
 public:
  MemoryCall();
  ~MemoryCall();
  MemoryCall(const MemoryCall&) = delete;
  MemoryCall& operator=(const MemoryCall&) = delete;
};
// Waits until no MemoryCall exists, and keeps new ones waiting until release_memory_calls().
// Returns false, and keeps none waiting, if is_over() became true first.
bool hold_memory_calls(const std::function<bool()>& is_over);
void release_memory_calls();

// While an object of this class exists, this thread allocates no device memory and no pinned
// memory: allocate_...() throws std::logic_error. Such a call waits for all devices of the ranks,
// which may wait for this thread's launch.
class NoAllocations {
 public:
  NoAllocations();
  ~NoAllocations();
  NoAllocations(const NoAllocations&) = delete;
  NoAllocations& operator=(const NoAllocations&) = delete;
};

// Allocates device memory, aligned to 256 bytes and not initialised. Throws DoesNotFit with the
// wanted and the free bytes.
Buffer allocate_device(int device, std::size_t bytes);

// Allocates memory filled with zeros.
Buffer allocate_zeros(int device, std::size_t bytes);

// Allocates memory with a copy of the bytes at `from`.
Buffer allocate_copy(int device, const void* from, std::size_t bytes);

// Allocates at least one byte of pinned host memory, with the flags of cudaHostAlloc. Any device
// may copy it while the host continues. For the planned device it is memory of the system.
HostBuffer allocate_pinned(std::size_t bytes, unsigned flags);
// Returns whether all bytes belong to one such buffer. Any thread may call it.
bool is_pinned(const void* memory, std::size_t bytes);

// Streams and events without timing, as owners. They are null on the planned device, and may be
// destroyed on any thread.
using StreamHandle = std::unique_ptr<CUstream_st, DestroyOnDevice<cudaStreamDestroy>>;
StreamHandle create_stream();
using EventHandle = std::unique_ptr<CUevent_st, DestroyOnDevice<cudaEventDestroy>>;
EventHandle create_event();
// A host thread that waits for this event sleeps instead of occupying a core.
EventHandle create_blocking_event();
EventHandle create_timing_event();  // makes an event with timing

// Enqueue a copy within the memory of a device, and a fill with zeros. No bytes: nothing.
void copy_on_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream);
void fill_zeros(void* to, std::size_t bytes, cudaStream_t stream);
// Enqueue the record of an event and the wait of a stream for it. Nothing on the planned device,
// which has no events.
void record_event(const EventHandle& event, cudaStream_t stream);
void wait_for_event(cudaStream_t stream, const EventHandle& event);

template <class T>
T* pointer_to(Span span) {
  return reinterpret_cast<T*>(span.address);
}

}  // namespace trainer::backend::cuda
