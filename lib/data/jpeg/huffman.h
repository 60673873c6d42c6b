// Huffman tables that tell the length of a code and of the number behind it in one look.
#pragma once

#include <cstdint>

#include "data/jpeg/header.h"

namespace trainer::data::jpeg {

// How many bits the table looks at. Hardly any code is longer.
inline constexpr int kLookBits = 11;

// What a code stands for, each part where a shift by the lower six bits finds it:
//   bits 0..5    length of the code and the number behind it
//   bits 6..11   length of the code
//   bits 12..17  63 - length of the number
//   bits 24..31  how far to step in zigzag order: run + 1; kEndStep after the last coefficient
// 0: no code, or one longer than the look.
inline constexpr int kCodeShift = 6, kNumberShift = 12, kStepShift = 24;
inline constexpr std::uint32_t kEndStep = 128;
// The most bits of an entry of the look.
inline constexpr int kMostLookBits = kLookBits + 15;

struct HuffmanTable {
  std::uint32_t look[1 << kLookBits];
  // Codes of `length` bits, written as 16 bits, are those below limit[length]; the entry of a code
  // is entries[(code >> (16 - length)) + offset[length]].
  std::int32_t limit[17];
  std::int32_t offset[17];
  std::uint32_t entries[256];
};

// False where libjpeg refuses the code.
bool make_table(const HuffmanCode& code, bool dc, HuffmanTable& table);

// The table of a code, kept from image to image by each thread, as most files share theirs. Null
// where libjpeg refuses the code. `slot` tells the tables that one scan uses apart: 0 to 7.
const HuffmanTable* table_of(const HuffmanCode& code, bool dc, int slot);

}  // namespace trainer::data::jpeg
