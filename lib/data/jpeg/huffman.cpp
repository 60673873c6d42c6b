#include "data/jpeg/huffman.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace trainer::data::jpeg {
namespace {

std::uint32_t entry_of(int symbol, int length, bool dc) {
  const int bits = symbol & 15, run = symbol >> 4;
  std::uint32_t step = static_cast<std::uint32_t>(run) + 1;
  if (!dc && bits == 0 && run != 15) step = kEndStep;
  return static_cast<std::uint32_t>(length + bits) |
         static_cast<std::uint32_t>(length) << kCodeShift |
         static_cast<std::uint32_t>(63 - bits) << kNumberShift | step << kStepShift;
}

}  // namespace

bool make_table(const HuffmanCode& source, bool dc, HuffmanTable& table) {
  std::fill(std::begin(table.look), std::end(table.look), 0);
  const std::uint8_t* symbols = source.counts + 16;
  std::uint32_t code = 0;
  int index = 0;
  table.limit[0] = table.offset[0] = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const int count = source.counts[length - 1];
    table.offset[length] = index - static_cast<std::int32_t>(code);
    for (int i = 0; i < count; ++i, ++index, ++code) {
      // No code is all ones.
      if (code + 1 >= 1u << length) return false;
      const int symbol = symbols[index];
      if (dc && symbol > 15) return false;
      const std::uint32_t entry = table.entries[index] = entry_of(symbol, length, dc);
      if (length > kLookBits) continue;
      std::fill_n(table.look + (code << (kLookBits - length)), 1u << (kLookBits - length), entry);
    }
    table.limit[length] = static_cast<std::int32_t>(code << (16 - length));
  }
  return true;
}

const HuffmanTable* table_of(const HuffmanCode& code, bool dc, int slot) {
  struct Kept {
    std::vector<std::uint8_t> source;
    std::unique_ptr<HuffmanTable> table;
  };
  thread_local std::array<Kept, 8> kept;
  Kept& place = kept[static_cast<std::size_t>(slot)];
  const std::span source(code.counts, 16 + static_cast<std::size_t>(code.symbols));
  if (place.table && std::ranges::equal(source, place.source)) return place.table.get();
  place.source.clear();
  if (!place.table) place.table = std::make_unique<HuffmanTable>();
  if (!make_table(code, dc, *place.table)) {
    place.table.reset();
    return nullptr;
  }
  place.source.assign(source.begin(), source.end());
  return place.table.get();
}

}  // namespace trainer::data::jpeg
