// The arithmetic of NCCL's reductions. Follows the NCCL User Guide, "Types": ncclDataType_t and
// ncclRedOp_t.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "cuda/fake_runtime/nccl/state.h"

namespace fake {
namespace {

struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    constexpr std::uint32_t kInfinity = 0x7F800000;
    const bool is_nan = (wide & 0x7FFFFFFF) > kInfinity;
    // Round to nearest, ties to even.
    bits = static_cast<std::uint16_t>(is_nan ? 0x7FFF : (wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

// 16-bit types are summed in float32, all others in their own type.
template <class T, class Accumulator>
Accumulator combine(ncclRedOp_t op, Accumulator a, Accumulator b) {
  switch (op) {
    case ncclProd:
      return static_cast<Accumulator>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<Accumulator>(a + b);
  }
}

template <class T, class Accumulator = T>
void reduce_typed(const Collective& what, const std::vector<std::vector<char>>& parts, void* to) {
  const std::size_t ranks = parts.size();
  constexpr std::size_t kChunk = 64;  // elements that start at the same rank
  std::vector<T> result(what.count);
  const auto value = [&parts](std::size_t rank, std::size_t i) {
    T element;
    std::memcpy(&element, parts[rank].data() + i * sizeof(T), sizeof(T));
    return static_cast<Accumulator>(element);
  };
  for (std::size_t i = 0; i < what.count; ++i) {
    const std::size_t first = i / kChunk % ranks;
    Accumulator sum = value(first, i);
    for (std::size_t r = 1; r < ranks; ++r) {
      sum = combine<T>(what.op, sum, value((first + r) % ranks, i));
    }
    if (what.op == ncclAvg) sum = static_cast<Accumulator>(sum / static_cast<Accumulator>(ranks));
    result[i] = static_cast<T>(sum);
  }
  std::memcpy(to, result.data(), what.count * sizeof(T));
}

}  // namespace

std::size_t to_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

void reduce(const Collective& what, const std::vector<std::vector<char>>& parts, void* to) {
  switch (what.type) {
    case ncclInt8:
      return reduce_typed<std::int8_t>(what, parts, to);
    case ncclUint8:
      return reduce_typed<std::uint8_t>(what, parts, to);
    case ncclInt32:
      return reduce_typed<std::int32_t>(what, parts, to);
    case ncclUint32:
      return reduce_typed<std::uint32_t>(what, parts, to);
    case ncclInt64:
      return reduce_typed<std::int64_t>(what, parts, to);
    case ncclUint64:
      return reduce_typed<std::uint64_t>(what, parts, to);
    case ncclFloat16:
      return reduce_typed<_Float16, float>(what, parts, to);
    case ncclBfloat16:
      return reduce_typed<Bfloat16, float>(what, parts, to);
    case ncclFloat32:
      return reduce_typed<float>(what, parts, to);
    case ncclFloat64:
      return reduce_typed<double>(what, parts, to);
    default:
      return;
  }
}

}  // namespace fake
