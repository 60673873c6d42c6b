// Memory of devices and pinned memory of the host.
//
// Follows CUDA Runtime API 13.0, "Memory Management": cudaMalloc (not cleared, of the current
// device), cudaFree (an error for what is not allocated; "may perform implicit synchronization"),
// cudaHostAlloc, cudaFreeHost, cudaMemGetInfo; and "Unified Addressing": all devices see pinned
// memory at the host's address. Devices with peers: peers.cpp.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "cuda/fake_runtime/fake.h"
#include "cuda/fake_runtime/world.h"

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void* address,
                                                       std::size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* address,
                                                         std::size_t bytes);
}

namespace fake {
namespace {

constexpr std::size_t kAlignment = 256;  // of what cudaMalloc returns
constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

char* first_page(const Allocation& a) { return a.mapped + page_bytes(); }
std::size_t usable_bytes(const Allocation& a) { return a.mapped_bytes - 2 * page_bytes(); }

void protect(const Allocation& a, int protection) {
  if (mprotect(first_page(a), usable_bytes(a), protection) != 0) {
    print("mprotect failed; the limit of memory mappings may be reached");
    std::abort();
  }
}

void protect_device(World& w, int device, int protection) {
  for (const auto& [address, a] : w.device_memory) {
    if (a.device == device) protect(a, protection);
  }
}

// Pages of NaN between two that are inaccessible. The end lies against the second, but for the
// alignment. False: the system has no memory.
bool map(std::size_t bytes, int device, Allocation& a) {
  const std::size_t aligned = rounded_up(std::max<std::size_t>(bytes, 1), kAlignment);
  const std::size_t usable = rounded_up(aligned, page_bytes());
  a.mapped_bytes = usable + 2 * page_bytes();
  // protect() takes time for each page, so that the usable pages begin where a large page can.
  const std::size_t spare = usable < kLargePageBytes ? 0 : kLargePageBytes;
  void* mapped =
      mmap(nullptr, a.mapped_bytes + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  a.mapped = static_cast<char*>(mapped);
  if (spare > 0) {
    const auto first = reinterpret_cast<std::uintptr_t>(first_page(a));
    a.mapped += rounded_up(first, kLargePageBytes) - first;
    // Where the kernel has no large pages, small ones serve as well.
    madvise(first_page(a), usable, MADV_HUGEPAGE);
  }
  a.bytes = bytes;
  a.device = device;
  a.address = first_page(a) + usable - aligned;
  protect(a, PROT_READ | PROT_WRITE);
  std::memset(first_page(a), 0xFF, usable);
  if (__asan_poison_memory_region) {
    __asan_poison_memory_region(first_page(a), usable - aligned);
    __asan_poison_memory_region(a.address + bytes, aligned - bytes);
  }
  return true;
}

// Gives the pages back but keeps the addresses, so that whoever uses them still is found.
void unmap(const Allocation& a) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(a.mapped, a.mapped_bytes);
  mmap(a.mapped, a.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
       -1, 0);
}

using Allocations = std::map<const char*, Allocation>;
const Allocation* find(const Allocations& in, const void* address, std::size_t bytes) {
  const char* begin = static_cast<const char*>(address);
  auto at = in.upper_bound(begin);
  if (at == in.begin()) return nullptr;
  const Allocation& a = (--at)->second;
  const auto offset = static_cast<std::size_t>(begin - a.address);
  const bool inside =
      offset <= a.bytes && bytes <= a.bytes - offset && (bytes > 0 || offset < a.bytes);
  return inside ? &a : nullptr;
}

cudaError_t allocate_device(Lock& lock, void** pointer, std::size_t bytes) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaMalloc")) return e;
  if (!pointer) return cudaErrorInvalidValue;
  if (const cudaError_t e = check_unsafe_call(w)) return e;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = current_device();
  if (const cudaError_t e = wait_for_peers(lock, "cudaMalloc", device)) return e;
  const std::size_t free = free_bytes(w, device);
  Allocation a;
  if (bytes > free || rounded_up(bytes, kAlignment) > free || !map(bytes, device, a)) {
    return cudaErrorMemoryAllocation;
  }
  if (w.accessors[static_cast<std::size_t>(device)] == 0) protect(a, PROT_NONE);
  watch_range(a.mapped, a.mapped_bytes);
  w.device_memory[a.address] = a;
  *pointer = a.address;
  return cudaSuccess;
}

// Another thread may still run an operation of a device whose context has just ended.
void wait_for_running(Lock& lock, int device) {
  World& w = world();
  while (w.accessors[static_cast<std::size_t>(device)] > 0) {
    w.something_changed.wait_for(lock, std::chrono::milliseconds(1));
  }
}

cudaError_t free_device(Lock& lock, void* pointer) {
  World& w = world();
  const cudaError_t before = begin(w, "cudaFree");
  if (before != cudaSuccess && before != sticky_error(w, current_device())) return before;
  if (!pointer) return before;
  if (const cudaError_t e = check_unsafe_call(w)) return e;
  const char* address = static_cast<const char*>(pointer);
  if (w.device_memory.count(address) == 0) return cudaErrorInvalidValue;
  cudaError_t status = before;
  const int device = w.device_memory.at(address).device;
  if (status == cudaSuccess) status = wait_for_peers(lock, "cudaFree", device);
  if (status != cudaSuccess) wait_for_running(lock, device);
  if (status == cudaSuccess && flip(w)) {
    status = run_until(lock, device, [&w, device] { return is_idle(w, device); });
  }
  const auto at = w.device_memory.find(address);
  if (at == w.device_memory.end()) return cudaErrorInvalidValue;
  unmap(at->second);
  w.device_memory.erase(at);
  return status;
}

cudaError_t allocate_pinned(Lock& lock, void** pointer, std::size_t bytes) {
  World& w = world();
  if (const cudaError_t e = begin(w, "cudaHostAlloc")) return e;
  if (!pointer) return cudaErrorInvalidValue;
  if (const cudaError_t e = check_unsafe_call(w)) return e;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (const cudaError_t e = wait_for_peers(lock, "cudaHostAlloc", -1)) return e;
  Allocation a;
  if (!map(bytes, -1, a)) return cudaErrorMemoryAllocation;
  w.pinned_memory[a.address] = a;
  *pointer = a.address;
  return cudaSuccess;
}

cudaError_t free_pinned(Lock& lock, void* pointer) {
  World& w = world();
  const cudaError_t before = begin(w, "cudaFreeHost");
  if (before != cudaSuccess && before != sticky_error(w, current_device())) return before;
  if (!pointer) return before;
  if (const cudaError_t e = check_unsafe_call(w)) return e;
  const char* address = static_cast<const char*>(pointer);
  if (w.pinned_memory.count(address) == 0) return cudaErrorInvalidValue;
  const cudaError_t status =
      before == cudaSuccess ? wait_for_peers(lock, "cudaFreeHost", -1) : before;
  if (status != cudaSuccess) wait_for_running(lock, current_device());
  const auto at = w.pinned_memory.find(address);
  if (at == w.pinned_memory.end()) return cudaErrorInvalidValue;
  watch_range(at->second.mapped, at->second.mapped_bytes);
  unmap(at->second);
  w.pinned_memory.erase(at);
  return status;
}

}  // namespace

void MemoryAccess::open(int device, int other_device) {
  if (device == device_ && other_device == other_) return;
  close();
  device_ = device;
  other_ = other_device == device ? -1 : other_device;
  for (const int d : {device_, other_}) {
    if (d >= 0 && world_.accessors[static_cast<std::size_t>(d)]++ == 0) {
      protect_device(world_, d, PROT_READ | PROT_WRITE);
    }
  }
}

void MemoryAccess::close() {
  for (const int d : {device_, other_}) {
    if (d >= 0 && --world_.accessors[static_cast<std::size_t>(d)] == 0) {
      protect_device(world_, d, PROT_NONE);
    }
  }
  device_ = other_ = -1;
}

std::size_t free_bytes(const World& w, int device) {
  std::size_t used =
      w.settings.kernel_bytes * w.loaded[static_cast<std::size_t>(device)].size() +
      w.settings.connection_bytes * static_cast<std::size_t>(connected_ranks(device));
  for (const auto& [address, a] : w.device_memory) {
    if (a.device == device) used += rounded_up(a.bytes, kAlignment);
  }
  return w.settings.memory_bytes - used;
}

const Allocation* find_device_memory(const World& w, const void* address, std::size_t bytes) {
  return find(w.device_memory, address, bytes);
}

const Allocation* find_pinned_memory(const World& w, const void* address, std::size_t bytes) {
  return find(w.pinned_memory, address, bytes);
}

void free_all_memory(World& w) {
  for (const auto& [address, a] : w.device_memory) unmap(a);
  for (const auto& [address, a] : w.pinned_memory) unmap(a);
  w.device_memory.clear();
  w.pinned_memory.clear();
}

bool is_device_memory(const void* address, std::size_t bytes) {
  World& w = world();
  const Lock lock(w.mutex);
  return find_device_memory(w, address, bytes) != nullptr;
}

bool is_device_memory(const void* address, std::size_t bytes, int device) {
  World& w = world();
  const Lock lock(w.mutex);
  const Allocation* a = find_device_memory(w, address, bytes);
  return a && a->device == device;
}

}  // namespace fake

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::allocate_device(lock, pointer, bytes));
}

cudaError_t cudaFree(void* pointer) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::free_device(lock, pointer));
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::allocate_pinned(lock, pointer, bytes));
}

cudaError_t cudaFreeHost(void* pointer) {
  fake::Lock lock(fake::world().mutex);
  return fake::end(fake::free_pinned(lock, pointer));
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  fake::World& w = fake::world();
  const fake::Lock lock(w.mutex);
  if (const cudaError_t e = fake::begin(w, "cudaMemGetInfo")) return fake::end(e);
  if (!free || !total) return fake::end(cudaErrorInvalidValue);
  *total = w.settings.memory_bytes;
  *free = fake::free_bytes(w, fake::current_device());
  return cudaSuccess;
}

}  // extern "C"
