// What decoding a JPEG spends its time on, written for AVX2 and BMI2: these may be called only
// where runs_here(). The results are libjpeg-turbo's, bit for bit, whatever the coefficients are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/jpeg/huffman.h"

namespace trainer::data::jpeg {

// ---- Entropy-coded bytes (entropy.cpp) ---------------------------------------------------------

// Copies [in, end) without the zeros stuffed behind 0xFF, up to a marker or the end. Returns where
// it stopped; `out` becomes the end of the copy. It writes up to 32 bytes beyond that.
const std::uint8_t* unstuff(const std::uint8_t* in, const std::uint8_t* end, std::uint8_t*& out);

// The next bits are the upper ones of `bits`; so many of them are there for certain as the lower
// six bits of `count` say.
struct BitReader {
  const std::uint8_t* next;
  std::uint64_t bits;
  std::uint64_t count;
  std::uint64_t long_codes;  // how many there were, where they are counted
};

// Coefficients are kept two blocks together: [row][block][column], so that a row of both is one
// vector; beyond them is room for what is not wanted.
inline constexpr int kPairSize = 160;
inline constexpr int kPairLane = 8;

// One block of an MCU: its tables and where its coefficients go.
struct BlockPlan {
  const HuffmanTable* dc;
  const HuffmanTable* ac;
  int component;
  int pair, lane;
};
// The most bytes that one MCU of 6 blocks can take; so many must be readable beyond the segment.
inline constexpr int kMostMcuBytes = 6 * 64 * 4 + 16;

// Decodes the blocks of an MCU into zeros. last[2 * pair + lane] becomes the zigzag place of the
// last coefficient. False where no code fits or the coefficients are too many.
using McuDecoder = bool (*)(BitReader& reader, const BlockPlan* plan, int blocks,
                            std::int32_t* predictions, std::int16_t* coefficients,
                            std::uint8_t* last);
// The faster one where long codes are so often met (more than 1 of 20), or not; the other counts
// them.
McuDecoder mcu_decoder(bool often_long);

// ---- Inverse DCT (idct.cpp) --------------------------------------------------------------------

// Two blocks -> size rows of 2 * size samples, size being 8, 4, 2 or 1. The table is in the blocks'
// layout. The blocks become zeros again.
using InverseDct = void (*)(std::int16_t* pair, const std::int16_t* table, const std::uint8_t* last,
                            std::uint8_t* out, std::ptrdiff_t stride);
InverseDct inverse_dct(int size);

// ---- Colours (colour.cpp) ----------------------------------------------------------------------

// Twice as many samples from those of a row, weighted 3:1, or of two rows, the nearer one first:
// libjpeg's "fancy upsampling". Both read one sample before and 32 beyond the row, and write up to
// 64 beyond 2 * count; the sample before must equal the first, that beyond the last.
void widen(const std::uint8_t* row, int count, std::uint8_t* out);
void widen(const std::uint8_t* near_row, const std::uint8_t* far_row, int count, std::uint8_t* out);

// A row of `count` pixels to RGB; reads up to 32 beyond, writes none beyond.
void to_rgb(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red, int count,
            std::uint8_t* out);

}  // namespace trainer::data::jpeg
