// Copies and fills.
//
// Follows CUDA Runtime API 13.0, "Memory Management" (cudaMemcpyAsync, cudaMemsetAsync) and "API
// synchronization behavior", Asynchronous: copies between host memory return when they are
// complete; "for transfers between device memory and pageable host memory, the function might be
// synchronous with respect to host", so that the seed decides whether one has ended when it
// returns; pageable memory for a device is read before the call returns, and the driver "may
// synchronize with the stream and stage the copy into pinned memory". Stricter than the manual: a
// direction that does not fit the pointers is an error, not undefined, and copies of pageable
// memory are not captured.
#include <cstring>

#include "cuda/fake_runtime/world.h"

namespace fake {
namespace {

struct Copy {
  char* to = nullptr;
  const char* from = nullptr;
  std::size_t bytes = 0;
  int to_device = -1, from_device = -1;  // -1: host memory
  bool to_pageable = false, from_pageable = false;

  bool on_device_before() const { return from_device >= 0; }
  bool on_device_after() const { return to_device >= 0; }
};

// The device that a range lies on, -1 on the host. False: it leaves an allocation.
bool find_side(const World& w, const char* at, std::size_t bytes, int& device) {
  if (const Allocation* a = find_device_memory(w, at, bytes)) {
    device = a->device;
    return true;
  }
  return at && !find_device_memory(w, at, 1) && !find_device_memory(w, at + bytes - 1, 1);
}

cudaError_t check(const World& w, Copy& copy, cudaMemcpyKind kind) {
  if (!find_side(w, copy.to, copy.bytes, copy.to_device) ||
      !find_side(w, copy.from, copy.bytes, copy.from_device)) {
    return cudaErrorInvalidValue;
  }
  if (copy.to < copy.from + copy.bytes && copy.from < copy.to + copy.bytes) {
    return cudaErrorInvalidValue;
  }
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (kind != cudaMemcpyDefault) {
    const bool to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (to != copy.on_device_after() || from != copy.on_device_before()) {
      return cudaErrorInvalidValue;
    }
  }
  copy.to_pageable = !copy.on_device_after() && !find_pinned_memory(w, copy.to, copy.bytes);
  copy.from_pageable = !copy.on_device_before() && !find_pinned_memory(w, copy.from, copy.bytes);
  return cudaSuccess;
}

std::string describe(const Copy& copy) {
  return "copy of " + std::to_string(copy.bytes) + " bytes from " +
         (copy.on_device_before() ? "device to " : "host to ") +
         (copy.on_device_after() ? "device" : "host");
}

std::shared_ptr<const Work> make_work(const CUstream_st& stream, const Copy& copy) {
  auto work = std::make_shared<Work>();
  work->name = describe(copy);
  // What starts a copy, and 25 GB/s: of the order of PCIe 4.0 x16.
  work->seconds = 2e-6 + static_cast<double>(copy.bytes) / 25e9;
  work->device = copy.on_device_after()    ? copy.to_device
                 : copy.on_device_before() ? copy.from_device
                                           : stream.device;
  if (copy.on_device_before()) work->other_device = copy.from_device;
  if (copy.from_pageable && copy.on_device_after()) {
    const std::shared_ptr<char[]> staged(new char[copy.bytes]);
    std::memcpy(staged.get(), copy.from, copy.bytes);
    work->run = [copy, staged] { std::memcpy(copy.to, staged.get(), copy.bytes); };
  } else {
    work->run = [copy] { std::memcpy(copy.to, copy.from, copy.bytes); };
  }
  return work;
}

cudaError_t wait_for(Lock& lock, int device, const OperationPtr& op) {
  if (const cudaError_t e = run_until(lock, device, [&op] { return op->done; })) return e;
  op->finished.acquire();
  wait_until_end(*op);
  return cudaSuccess;
}

cudaError_t copy_async(Lock& lock, Copy copy, cudaMemcpyKind kind, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaMemcpyAsync")) return e;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (copy.bytes == 0) return cudaSuccess;
  if (const cudaError_t e = check(w, copy, kind)) return e;
  if (stream->capture && (copy.to_pageable || copy.from_pageable)) {
    invalidate(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (copy.from_pageable && copy.on_device_after() && stream->last && flip(w)) {
    const OperationPtr last = stream->last;
    const auto is_done = [&last] { return last->done; };
    if (const cudaError_t e = run_until(lock, stream->device, is_done)) return e;
  }
  if (const cudaError_t e = submit(lock, *stream, make_work(*stream, copy))) return e;
  if (stream->capture || copy.on_device_after()) return cudaSuccess;
  const bool waits = !copy.on_device_before() || (copy.to_pageable && flip(w));
  return waits ? wait_for(lock, stream->device, stream->last) : cudaSuccess;
}

cudaError_t fill_async(Lock& lock, void* to, int value, std::size_t bytes, cudaStream_t handle) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaMemsetAsync")) return e;
  CUstream_st* stream = find_stream(w, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const Allocation* device = find_device_memory(w, to, bytes);
  if (!device) return cudaErrorInvalidValue;
  auto work = std::make_shared<Work>();
  work->name = "fill of " + std::to_string(bytes) + " bytes";
  work->device = device->device;
  work->run = [to, value, bytes] { std::memset(to, value, bytes); };
  return submit(lock, *stream, std::move(work));
}

}  // namespace
}  // namespace fake

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  fake::Copy copy;
  copy.to = static_cast<char*>(to);
  copy.from = static_cast<const char*>(from);
  copy.bytes = bytes;
  return fake::end(fake::copy_async(lock, copy, kind, stream));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::fill_async(lock, to, value, bytes, stream));
}

}  // extern "C"
