// Reads the markers of a plain JPEG file: 8 bits, sequential, Huffman coded, grey or YCbCr, one
// scan.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trainer::data::jpeg {

using File = std::span<const std::uint8_t>;

// The place of each coefficient of zigzag order in the block: row * 8 + column.
inline constexpr std::uint8_t kZigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

struct Component {
  int id = 0;
  int h = 1, v = 1;    // sampling factors
  int quant = 0;       // the index of the quantisation table
  int dc = 0, ac = 0;  // the indices of the Huffman tables
};

// A code of a DHT segment in the memory of the file: 16 counts of codes by length, then the
// symbols.
struct HuffmanCode {
  const std::uint8_t* counts = nullptr;
  int symbols = 0;
};

struct Header {
  int height = 0, width = 0;
  int components = 0;  // 1 (grey) or 3 (YCbCr)
  std::array<Component, 3> component{};
  // Quantisation tables in zigzag order, in the memory of the file; null for a missing table.
  std::array<const std::uint8_t*, 4> quant{};
  std::array<HuffmanCode, 4> dc{}, ac{};
  int restart_interval = 0;  // number of MCUs; 0 for none
  std::size_t scan = 0;      // the offset of the entropy-coded bytes
  int orientation = 1;       // the value of EXIF or XMP
};

// Returns false if the file is not plain, or if libjpeg would warn of its markers or reject them:
// libjpeg then has to read it. Sampling factors are 1x1 for grey; those of luma are 1x1, 2x1 or 2x2
// for YCbCr, and those of chroma 1x1. Every table that the scan names exists.
bool read_plain_header(File file, Header& header);

}  // namespace trainer::data::jpeg
