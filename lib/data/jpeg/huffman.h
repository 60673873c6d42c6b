// Huffman tables that tell the length of a code and of the number behind it in one look.
#pragma once

#include <cstdint>

#include "data/jpeg/header.h"

namespace trainer::data::jpeg {

// How many bits the table looks at first.
inline constexpr int kLookBits = 11;

// What a code stands for, each part where a shift by the lower six bits finds it:
//   bits 0..5    length of the code and the number behind it
//   bits 6..11   length of the code
//   bits 12..17  63 - length of the number
//   bits 24..31  how far to step in zigzag order: run + 1; kEndStep after the last coefficient
// 0: no code.
inline constexpr int kCodeShift = 6, kNumberShift = 12, kStepShift = 24;
inline constexpr std::uint32_t kEndStep = 128;
// The most bits of an entry: those of 8-bit samples have 16 + 11 at most.
inline constexpr int kMostEntryBits = 28;

// Entries by the next bits. Long codes are the highest numbers: from 16 bits of `first_long` on the
// entry is that of all 16 bits, below that of the first kLookBits. Only a few thousand entries of
// the table are ever written or read, so that it takes little of a cache.
struct HuffmanTable {
  std::uint64_t first_long;  // in the upper 16 bits
  std::uint32_t entries[1 << 16];
};

// False where libjpeg refuses the code, and for codes that no file with 8-bit samples needs.
bool make_table(const HuffmanCode& code, bool dc, HuffmanTable& table);

// The table of a code, kept from image to image by each thread, as most files share theirs. Null
// where make_table gives false. `slot` tells the tables that one scan uses apart: 0 to 7.
const HuffmanTable* table_of(const HuffmanCode& code, bool dc, int slot);

}  // namespace trainer::data::jpeg
