#include "backend/arena.h"

#include <algorithm>
#include <numeric>

namespace trainer::backend {

ArenaPlan plan_arena(std::span<const Lifetime> buffers, std::int64_t alignment) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : order) {
    const Lifetime& buffer = buffers[i];
    const std::int64_t bytes = (buffer.bytes + alignment - 1) / alignment * alignment;
    std::int64_t offset = 0;
    for (const std::size_t j : placed) {
      const Lifetime& other = buffers[j];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (offset + bytes <= plan.offsets[j]) break;
      offset =
          std::max(offset, plan.offsets[j] + (other.bytes + alignment - 1) / alignment * alignment);
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.insert(std::ranges::upper_bound(placed, i,
                                           [&](std::size_t a, std::size_t b) {
                                             return plan.offsets[a] < plan.offsets[b];
                                           }),
                  i);
  }
  return plan;
}

}  // namespace trainer::backend
