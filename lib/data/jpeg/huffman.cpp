#include "data/jpeg/huffman.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace trainer::data::jpeg {
namespace {

std::uint32_t make_entry(int symbol, int length, bool dc) {
  const int bits = symbol & 15, run = symbol >> 4;
  std::uint32_t step = static_cast<std::uint32_t>(run) + 1;
  if (!dc && bits == 0 && run != 15) step = kEndStep;
  return static_cast<std::uint32_t>(length + bits) |
         static_cast<std::uint32_t>(length) << kCodeShift |
         static_cast<std::uint32_t>(63 - bits) << kNumberShift | step << kStepShift;
}

// Returns false for the codes for which get_table() returns null.
bool make_table(const HuffmanCode& source, bool dc, HuffmanTable& table) {
  const std::uint8_t* symbol = source.counts + 16;
  std::uint32_t code = 0, first_long = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    for (int i = 0; i < source.counts[length - 1]; ++i, ++symbol, ++code) {
      // A code must not consist of ones only.
      if (code + 1 >= 1u << length) return false;
      if (dc && *symbol > 15) return false;
      if (length + (*symbol & 15) > kMaxEntryBits) return false;
      const int looked = length <= kLookBits ? kLookBits : 16;
      const int free = looked - length;
      std::fill_n(table.entries + (code << free), 1u << free, make_entry(*symbol, length, dc));
    }
    if (length > kLookBits) continue;
    first_long = code << (16 - length);
    if (length < kLookBits) continue;
    // The indices of both lookups must not overlap.
    if (first_long < 1u << kLookBits) return false;
    std::fill(table.entries + first_long, std::end(table.entries), 0);
  }
  table.first_long = std::uint64_t{first_long} << 48;
  return true;
}

}  // namespace

const HuffmanTable* get_table(const HuffmanCode& code, bool dc, int slot) {
  struct Kept {
    std::vector<std::uint8_t> source;
    std::unique_ptr<HuffmanTable> table;
  };
  thread_local std::array<Kept, 8> kept;
  Kept& place = kept[slot];
  const std::span source(code.counts, 16 + static_cast<std::size_t>(code.symbols));
  if (place.table && std::ranges::equal(source, place.source)) return place.table.get();
  place.source.clear();
  if (!place.table) place.table = std::make_unique_for_overwrite<HuffmanTable>();
  if (!make_table(code, dc, *place.table)) {
    place.table.reset();
    return nullptr;
  }
  place.source.assign(source.begin(), source.end());
  return place.table.get();
}

}  // namespace trainer::data::jpeg
