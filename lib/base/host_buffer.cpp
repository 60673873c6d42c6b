#include "base/host_buffer.h"

#include <new>

namespace trainer {

HostBuffer allocate_host(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* data = static_cast<std::byte*>(::operator new(bytes == 0 ? 1 : bytes, kAlignment));
  return {data, bytes, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace trainer
