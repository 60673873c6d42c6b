// Host memory that a device can copy from and to without a detour.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

namespace trainer {

// A move-only block of host memory, given back by the function it came with. A device may pin it,
// so its owner keeps it alive until every copy from or to it has finished.
class HostBuffer {
 public:
  using Free = std::function<void(std::byte*)>;

  HostBuffer() = default;
  // `free` must not throw; it is called once with `data`, from the thread that destroys the buffer.
  HostBuffer(std::byte* data, std::size_t bytes, Free free)
      : data_(data), bytes_(bytes), free_(std::move(free)) {}
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    HostBuffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~HostBuffer() {
    if (data_ != nullptr) free_(data_);
  }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(HostBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(free_, other.free_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Free free_;
};

// Allocates host memory of at least `bytes`, aligned to 64 bytes; throws std::bad_alloc or
// DeviceError.
using HostAllocator = std::function<HostBuffer(std::size_t bytes)>;
// Pageable memory of the system.
HostBuffer allocate_host(std::size_t bytes);

}  // namespace trainer
