#include "backend/cuda/runtime.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>

#include "backend/backend.h"
#include "backend/cuda/kernels/counted_work.h"
#include "backend/cuda/telemetry/gpu_faults.h"
#include "base/error.h"

namespace trainer::backend::cuda {

namespace {

// CUDA Runtime API, "Data types used by CUDA Runtime", cudaError, has the causes.
const char* find_remedy(cudaError_t error) {
  switch (error) {
    case cudaErrorSystemNotReady:
      return "; start the service nvidia-fabricmanager in the version of the driver, without which "
             "GPUs behind NVSwitches do not work";
    case cudaErrorSystemDriverMismatch:
      return "; libcuda.so.1 has another version than the driver that is loaded: restart the "
             "machine after an update of the driver, and the container after one of its host";
    case cudaErrorCompatNotSupportedOnDevice:
      return "; the package cuda-compat serves data-centre GPUs only: remove its folder from "
             "LD_LIBRARY_PATH, and update the driver";
    case cudaErrorDevicesUnavailable:
      return "; end the process that holds the GPU, which nvidia-smi lists, or let processes share "
             "it by `nvidia-smi -c DEFAULT`";
    case cudaErrorUnknown:
      return "; load the kernel module nvidia_uvm by `sudo modprobe nvidia_uvm`, or restart the "
             "machine";
    case cudaErrorIllegalAddress:
      return "; with TRAINER_CUDA_SYNC=1 the error names the layer";
    default:
      return "";
  }
}

}  // namespace

std::string describe_error(cudaError_t error) {
  return concat(cudaGetErrorName(error), ": ", cudaGetErrorString(error), find_remedy(error));
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears it, so that the next call does not report it again
  const int gpu = chosen_device();
  const std::string faults = gpu < 0 ? "" : describe_faults(gpu);
  throw DeviceError(concat(gpu < 0 ? "" : concat("GPU ", gpu, ": "), what, ": ",
                           describe_error(status), faults.empty() ? "" : "; ", faults));
}

namespace {

// The device that a guard or choose_device() made current on this thread, or -1. cudaGetDevice
// returns 0 on a thread that has chosen none, and a return to GPU 0 would create a context on it.
thread_local int current_device = -1;

}  // namespace

void choose_device(int device) noexcept {
  if (current_device >= 0 || device < 0 || cudaSetDevice(device) != cudaSuccess) return;
  current_device = device;
}

int chosen_device() noexcept { return current_device; }

DeviceGuard::DeviceGuard(int device) : before_(current_device) {
  if (before_ != device && device != kPlannedDevice) check(cudaSetDevice(device), "cudaSetDevice");
  current_device = device;
}

DeviceGuard::~DeviceGuard() {
  if (before_ == current_device) return;
  if (current_device == kPlannedDevice || before_ == kPlannedDevice) {
    current_device = before_;
    return;
  }
  if (before_ < 0) return;
  cudaSetDevice(before_);
  current_device = before_;
}

namespace {

struct MemoryGate {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;  // in progress
  int holds = 0;
};
// Never destroyed: buffers may outlive main().
MemoryGate& memory_gate() {
  static auto& gate = *new MemoryGate;
  return gate;
}

}  // namespace

MemoryCall::MemoryCall() {
  MemoryGate& gate = memory_gate();
  std::unique_lock lock(gate.mutex);
  gate.changed.wait(lock, [&gate] { return gate.holds == 0; });
  ++gate.calls;
}

MemoryCall::~MemoryCall() {
  MemoryGate& gate = memory_gate();
  const std::lock_guard lock(gate.mutex);
  --gate.calls;
  gate.changed.notify_all();
}

bool hold_memory_calls(const std::function<bool()>& is_over) {
  constexpr std::chrono::milliseconds kPause(10);
  MemoryGate& gate = memory_gate();
  std::unique_lock lock(gate.mutex);
  ++gate.holds;
  while (!gate.changed.wait_for(lock, kPause, [&gate] { return gate.calls == 0; })) {
    if (!is_over()) continue;
    --gate.holds;
    gate.changed.notify_all();
    return false;
  }
  return true;
}

void release_memory_calls() {
  MemoryGate& gate = memory_gate();
  const std::lock_guard lock(gate.mutex);
  --gate.holds;
  gate.changed.notify_all();
}

namespace {

thread_local int no_allocations = 0;  // objects of NoAllocations

void check_may_allocate(std::size_t bytes) {
  if (no_allocations == 0) return;
  throw std::logic_error(
      concat("a launched call allocates ", bytes, " bytes; internal error, please report it"));
}

// Returns addresses of the planned device. Blocks do not overlap, so an address identifies a block.
Buffer allocate_planned(std::size_t bytes) {
  static std::atomic<std::uintptr_t> next{std::uintptr_t{1} << 44};
  constexpr std::uintptr_t kAlignment = 256;
  const std::uintptr_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return {{reinterpret_cast<std::byte*>(next.fetch_add(size)), bytes}, [](std::byte*) {}};
}

}  // namespace

NoAllocations::NoAllocations() { ++no_allocations; }
NoAllocations::~NoAllocations() { --no_allocations; }

Buffer allocate_device(int device, std::size_t bytes) {
  if (bytes == 0) return {};
  check_may_allocate(bytes);
  if (device == kPlannedDevice) return allocate_planned(bytes);
  const DeviceGuard guard(device);
  void* memory = nullptr;
  const cudaError_t status = [&] {
    const MemoryCall call;
    return cudaMalloc(&memory, bytes);
  }();
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw DoesNotFit(concat("GPU ", device, ": out of memory: ", bytes >> 20, " MiB wanted, ",
                            free >> 20, " of ", total >> 20, " MiB free"));
  }
  check(status, "cudaMalloc");
  return {{static_cast<std::byte*>(memory), bytes}, [device](std::byte* address) {
            choose_device(device);
            const MemoryCall call;
            cudaFree(address);
          }};
}

Buffer allocate_zeros(int device, std::size_t bytes) {
  Buffer buffer = allocate_device(device, bytes);
  if (bytes == 0 || device == kPlannedDevice) return buffer;
  const DeviceGuard guard(device);
  const StreamHandle stream = create_stream();
  check(cudaMemsetAsync(buffer.span().address, 0, bytes, stream.get()), "cudaMemsetAsync");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  return buffer;
}

Buffer allocate_copy(int device, const void* from, std::size_t bytes) {
  Buffer buffer = allocate_device(device, bytes);
  if (bytes == 0 || device == kPlannedDevice) return buffer;
  const DeviceGuard guard(device);
  const StreamHandle stream = create_stream();
  check(cudaMemcpyAsync(buffer.span().address, from, bytes, cudaMemcpyHostToDevice, stream.get()),
        "cudaMemcpyAsync to the device");
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  return buffer;
}

namespace {

struct PinnedMemory {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> blocks;  // bytes, by address
};
// Never destroyed: buffers may outlive main().
PinnedMemory& pinned_memory() {
  static auto& all = *new PinnedMemory;
  return all;
}

}  // namespace

HostBuffer allocate_pinned(std::size_t bytes, unsigned flags) {
  check_may_allocate(bytes);
  if (current_device == kPlannedDevice) return allocate_host(bytes);
  void* memory = nullptr;
  {
    const MemoryCall call;
    check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), flags), "cudaHostAlloc");
  }
  auto* block = static_cast<std::byte*>(memory);
  PinnedMemory& all = pinned_memory();
  {
    const std::lock_guard lock(all.mutex);
    all.blocks[block] = bytes;
  }
  return {block, bytes, [&all, device = current_device](std::byte* data) {
            choose_device(device);
            {
              const std::lock_guard lock(all.mutex);
              all.blocks.erase(data);
            }
            const MemoryCall call;
            cudaFreeHost(data);
          }};
}

bool is_pinned(const void* memory, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(memory);
  PinnedMemory& all = pinned_memory();
  const std::lock_guard lock(all.mutex);
  const auto after = all.blocks.upper_bound(first);
  if (after == all.blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return bytes <= size && static_cast<std::size_t>(first - begin) <= size - bytes;
}

StreamHandle create_stream() {
  if (current_device == kPlannedDevice) return nullptr;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(stream);
}

namespace {

EventHandle make_event_handle(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

}  // namespace

EventHandle create_event() {
  if (current_device == kPlannedDevice) return nullptr;
  return make_event_handle(cudaEventDisableTiming);
}

EventHandle create_blocking_event() {
  if (current_device == kPlannedDevice) return nullptr;
  return make_event_handle(cudaEventDisableTiming | cudaEventBlockingSync);
}

void copy_on_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  if (CountedWork* counted = CountedWork::current()) {
    ++counted->copies;
    return;
  }
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
        "cudaMemcpyAsync on the device");
}

void fill_zeros(void* to, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  if (CountedWork* counted = CountedWork::current()) {
    ++counted->copies;
    return;
  }
  check(cudaMemsetAsync(to, 0, bytes, stream), "cudaMemsetAsync");
}

void record_event(const EventHandle& event, cudaStream_t stream) {
  if (event) check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

void wait_for_event(cudaStream_t stream, const EventHandle& event) {
  if (event) check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
}

EventHandle create_timing_event() { return make_event_handle(cudaEventDefault); }

}  // namespace trainer::backend::cuda
