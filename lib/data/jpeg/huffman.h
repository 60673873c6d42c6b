// Huffman tables that give the length of a code and of the number behind it in one lookup.
#pragma once

#include <cstdint>

#include "data/jpeg/header.h"

namespace trainer::data::jpeg {

// The number of bits of the first lookup.
inline constexpr int kLookBits = 11;

// The meaning of a code. Each part is where a shift uses its lower six bits:
//   bits 0..5    length of the code and the number behind it
//   bits 6..11   length of the code
//   bits 12..17  63 - length of the number
//   bits 24..31  the step in zigzag order: run + 1; kEndStep after the last coefficient
// 0 stands for no code.
inline constexpr int kCodeShift = 6, kNumberShift = 12, kStepShift = 24;
inline constexpr std::uint32_t kEndStep = 128;
// The largest number of bits of an entry; codes of 8-bit samples have at most 16 + 11.
inline constexpr int kMaxEntryBits = 28;

// Entries by the next bits. Long codes have the highest numbers: if the next 16 bits are at least
// `first_long`, they are the index of the entry; otherwise the first kLookBits are. Only a few
// thousand entries are ever written or read, so that the table takes little cache.
struct HuffmanTable {
  std::uint64_t first_long;  // the number is in the upper 16 bits
  std::uint32_t entries[1 << 16];
};

// Returns the table of a code. Each thread keeps the last table of each slot, as most files have
// the same code. Null if libjpeg rejects the code, and for codes that files with 8-bit samples do
// not need. The tables of one scan need different slots, 0 to 7.
const HuffmanTable* get_table(const HuffmanCode& code, bool dc, int slot);

}  // namespace trainer::data::jpeg
