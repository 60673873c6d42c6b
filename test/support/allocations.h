// Counts every operator new of a program. It replaces the operators, so that one source file of a
// program may include it, and no header.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace trainer::test {

inline std::atomic<std::int64_t> allocations{0};
// True if an allocation of this stack is not to be counted; null: all count.
inline std::atomic<bool (*)()> is_excepted{nullptr};

inline void* counted(std::size_t bytes, std::size_t alignment) {
  const auto excepted = is_excepted.load();
  if (excepted == nullptr || !excepted()) ++allocations;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (void* p = std::aligned_alloc(alignment, rounded)) return p;
  throw std::bad_alloc();
}

}  // namespace trainer::test

void* operator new(std::size_t bytes) {
  return trainer::test::counted(bytes, alignof(std::max_align_t));
}
void* operator new[](std::size_t bytes) {
  return trainer::test::counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return trainer::test::counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return trainer::test::counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
