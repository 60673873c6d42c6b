// Memory filled with zeros, on huge pages if the kernel has them, because page faults and TLB
// misses take a measurable share of a training step.
#pragma once

#include <cstdint>
#include <utility>

namespace trainer::backend::cpu {

inline constexpr std::int64_t kAlignment = 64;
inline constexpr std::int64_t kFloatBytes = sizeof(float);

inline std::int64_t align_up(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::int64_t bytes);
  ~Memory();
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  char* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace trainer::backend::cpu
