#include "backend/cpu/memory.h"

#include <sys/mman.h>

#include "base/error.h"

namespace trainer::backend::cpu {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;

}  // namespace

Memory::Memory(std::int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::size_t size = bytes;
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw DeviceError(concat("cannot get ", (bytes + (1 << 20) - 1) >> 20,
                             " MiB of memory; use a smaller train.batch_size or fewer lanes"));
  }
  if (bytes >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
  data_ = static_cast<char*>(data);
}

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace trainer::backend::cpu
