// Compiled for AVX2 and BMI2, so that no inline function of another header may be used here: the
// linker could keep this copy of it for everyone.
#include <immintrin.h>

#include "data/jpeg/kernels.h"

namespace trainer::data::jpeg {
namespace {

// Places in zigzag order -> index in a pair. Steps beyond the last coefficient, kEndStep among
// them, lead to the spare room.
struct Order {
  std::uint8_t index[64 + kEndStep];
  constexpr Order() : index() {
    for (unsigned i = 0; i < 64 + kEndStep; ++i) index[i] = 2 * 64;
    for (unsigned i = 0; i < 64; ++i) {
      index[i] = static_cast<std::uint8_t>((kZigzag[i] >> 3) * 16 + (kZigzag[i] & 7));
    }
  }
};
constexpr Order kOrder;

// At least 56 bits are there afterwards.
[[gnu::always_inline]] inline void refill(BitReader& reader) {
  std::uint64_t ahead;
  __builtin_memcpy(&ahead, reader.next, sizeof ahead);
  reader.bits |= __builtin_bswap64(ahead) >> (reader.count & 63);
  reader.next += (~reader.count & 63) >> 3;
  reader.count |= 56;
}
constexpr int kRefilled = 56;

// The entry of the code that these bits begin with, which no look knows; 0 when there is none.
[[gnu::noinline]] std::uint32_t long_code(const HuffmanTable& table, std::uint64_t bits) {
  const auto code = static_cast<std::int32_t>(bits >> 48);
  for (int length = kLookBits + 1; length <= 16; ++length) {
    if (code >= table.limit[length]) continue;
    return table.entries[(code >> (16 - length)) + table.offset[length]];
  }
  return 0;
}

// Takes a code and its number: only the length of both is waited for by the next.
[[gnu::always_inline]] inline std::uint32_t take(BitReader& reader, const HuffmanTable& table,
                                                 std::int32_t& value) {
  std::uint32_t entry = table.look[reader.bits >> (64 - kLookBits)];
  const bool longer = entry == 0;
  if (__builtin_expect(longer, 0)) {
    refill(reader);
    entry = long_code(table, reader.bits);
  }
  const std::uint64_t number = reader.bits << (entry >> kCodeShift & 63);
  reader.bits <<= entry & 63;
  // No part of the entry but the lowest matters to the lower bits of the count.
  reader.count -= entry;
  if (__builtin_expect(longer, 0)) refill(reader);
  // The number's bits; those of a negative one begin with 0 and count from its least.
  const std::uint64_t most = ~std::uint64_t{0} >> 1 >> (entry >> kNumberShift & 63);
  const std::uint64_t bits = number >> 1 >> (entry >> kNumberShift & 63);
  const auto positive = static_cast<std::uint64_t>(static_cast<std::int64_t>(number) >> 63);
  value = static_cast<std::int32_t>(bits - (most & ~positive));
  return entry;
}
static_assert(2 * kMostLookBits <= kRefilled);

// Takes a coefficient, or the end of the block; whether another follows.
[[gnu::always_inline]] inline bool take_next(BitReader& reader, const HuffmanTable& table,
                                             std::uint64_t& place, std::int16_t* out) {
  std::int32_t value;
  const std::uint32_t entry = take(reader, table, value);
  // Without a code this is the end of no block.
  place += __builtin_expect(entry == 0, 0) ? 64 : entry >> kStepShift;
  out[kOrder.index[place]] = static_cast<std::int16_t>(value);
  return place < 63;
}

// Returns the place of the last coefficient; negative where the bits make no block.
[[gnu::always_inline]] inline int decode_block(BitReader& reader, const BlockPlan& plan,
                                               std::int32_t& prediction, std::int16_t* out) {
  std::int32_t value;
  refill(reader);
  if (take(reader, *plan.dc, value) == 0) return -1;
  prediction += value;
  out[0] = static_cast<std::int16_t>(prediction);
  const HuffmanTable& table = *plan.ac;
  std::uint64_t place = 0;
  // Two codes a refill.
  bool more = take_next(reader, table, place, out);
  while (more) {
    refill(reader);
    more = take_next(reader, table, place, out) && take_next(reader, table, place, out);
  }
  if (place == 63) return 63;
  return static_cast<int>(place) - static_cast<int>(kEndStep);
}

}  // namespace

bool runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"); }

const std::uint8_t* unstuff(const std::uint8_t* in, const std::uint8_t* end, std::uint8_t*& out) {
  const __m256i ones = _mm256_set1_epi8(-1);
  std::uint8_t* to = out;
  while (end - in >= 32) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
    const auto found =
        static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ones)));
    if (found == 0) {
      in += 32;
      to += 32;
      continue;
    }
    const int before = __builtin_ctz(found);
    in += before;
    to += before;
    if (in + 1 == end || in[1] != 0) {
      out = to;
      return in;
    }
    ++to;
    in += 2;
  }
  while (in < end) {
    if (*in == 0xFF) {
      if (in + 1 == end || in[1] != 0) break;
      ++in;
      *to++ = 0xFF;
      ++in;
    } else {
      *to++ = *in++;
    }
  }
  out = to;
  return in;
}

bool decode_mcu(BitReader& reader, const BlockPlan* plan, int blocks, std::int32_t* predictions,
                std::int16_t* coefficients, std::uint8_t* last) {
  BitReader local = reader;
  for (int i = 0; i < blocks; ++i) {
    const BlockPlan& block = plan[i];
    const int place =
        decode_block(local, block, predictions[block.component],
                     coefficients + block.pair * kPairSize + block.lane * kPairLane);
    if (place < 0) return false;
    last[2 * block.pair + block.lane] = static_cast<std::uint8_t>(place);
  }
  reader = local;
  return true;
}

}  // namespace trainer::data::jpeg
