// Compiled for AVX2 and BMI2. Inline functions of other headers must not be used here, as the
// linker could keep this copy of them for all callers.
#include <immintrin.h>

#include "data/jpeg/kernels.h"

namespace trainer::data::jpeg {
namespace {

// Maps places in zigzag order to indices in a pair. Places beyond the last coefficient, such as
// those after kEndStep, map to the spare elements.
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

// Makes at least 56 bits available.
[[gnu::always_inline]] inline void refill(BitReader& reader) {
  std::uint64_t ahead;
  __builtin_memcpy(&ahead, reader.next, sizeof ahead);
  reader.bits |= __builtin_bswap64(ahead) >> (reader.count & 63);
  reader.next += (~reader.count & 63) >> 3;
  reader.count |= 56;
}
static_assert(2 * kMaxEntryBits <= 56);

// Takes a code and its number. The next call depends only on the length of both.
template <bool kOftenLong>
[[gnu::always_inline]] inline std::uint32_t take(BitReader& reader, const HuffmanTable& table,
                                                 std::int32_t& value) {
  std::uint64_t index = reader.bits >> (64 - kLookBits);
  const bool is_long = reader.bits >= table.first_long;
  if constexpr (kOftenLong) {
    // A conditional move costs every code a little, but less than mispredicted branches.
    const std::uint64_t long_index = reader.bits >> 48;
    index = __builtin_expect_with_probability(is_long, 1, 0.5) ? long_index : index;
  } else if (__builtin_expect(is_long, 0)) {
    index = reader.bits >> 48;
    ++reader.long_codes;
  }
  const std::uint32_t entry = table.entries[index];
  const std::uint64_t number = reader.bits << (entry >> kCodeShift & 63);
  reader.bits <<= entry & 63;
  // Only the lowest part of the entry changes the lower bits of the count.
  reader.count -= entry;
  // The bits of the number; those of a negative number begin with 0 and count from the smallest
  // one.
  const std::uint64_t max_number = ~std::uint64_t{0} >> 1 >> (entry >> kNumberShift & 63);
  const std::uint64_t bits = number >> 1 >> (entry >> kNumberShift & 63);
  const auto positive = static_cast<std::uint64_t>(static_cast<std::int64_t>(number) >> 63);
  value = static_cast<std::int32_t>(bits - (max_number & ~positive));
  return entry;
}

// Takes a coefficient or the end of the block. Returns whether another coefficient follows.
template <bool kOftenLong>
[[gnu::always_inline]] inline bool take_next(BitReader& reader, const HuffmanTable& table,
                                             std::uint64_t& place, std::int16_t* out) {
  std::int32_t value;
  const std::uint32_t entry = take<kOftenLong>(reader, table, value);
  // Without a code, the place is not one at which a block ends.
  place += __builtin_expect(entry == 0, 0) ? 64 : entry >> kStepShift;
  out[kOrder.index[place]] = static_cast<std::int16_t>(value);
  return place < 63;
}

// Returns the place of the last coefficient; negative if the bits are not those of a block.
template <bool kOftenLong>
[[gnu::always_inline]] inline int decode_block(BitReader& reader, const BlockPlan& plan,
                                               std::int32_t& prediction, std::int16_t* out) {
  std::int32_t value;
  refill(reader);
  if (take<kOftenLong>(reader, *plan.dc, value) == 0) return -1;
  prediction += value;
  out[0] = static_cast<std::int16_t>(prediction);
  const HuffmanTable& table = *plan.ac;
  std::uint64_t place = 0;
  // Two codes per refill.
  bool more = take_next<kOftenLong>(reader, table, place, out);
  while (more) {
    refill(reader);
    more = take_next<kOftenLong>(reader, table, place, out) &&
           take_next<kOftenLong>(reader, table, place, out);
  }
  if (place == 63) return 63;
  return static_cast<int>(place) - static_cast<int>(kEndStep);
}

template <bool kOftenLong>
bool decode_mcu(BitReader& reader, const BlockPlan* plan, int blocks, std::int32_t* predictions,
                std::int16_t* coefficients, std::uint8_t* last) {
  BitReader local = reader;
  for (int i = 0; i < blocks; ++i) {
    const BlockPlan& block = plan[i];
    const int place =
        decode_block<kOftenLong>(local, block, predictions[block.component],
                                 coefficients + block.pair * kPairSize + block.lane * kPairLane);
    if (place < 0) return false;
    last[2 * block.pair + block.lane] = static_cast<std::uint8_t>(place);
  }
  reader = local;
  return true;
}

}  // namespace

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

McuDecoder mcu_decoder(bool often_long) {
  return often_long ? decode_mcu<true> : decode_mcu<false>;
}

}  // namespace trainer::data::jpeg
