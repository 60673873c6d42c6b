// The inner loops of resizing in plain C++, for AVX2 and for AVX-512; all give the same bits.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::data {

// Rows between the two passes keep this many bits after the point.
inline constexpr int kRowFraction = 6;

// Output i is the sum over k of values[i * taps + k] * input[first[i] + k], divided by 2^shift.
// Where fewer taps are needed the rest are zeros, for which first[i] + k may lie beyond the input.
struct ResizeWeights {
  int taps = 0;
  int shift = 0;
  std::vector<int> first;
  std::vector<std::int16_t> values;

  // The same for 16 numbers of an output row at a time, its channels in turn, where all that they
  // need of two taps lies within 64 elements of the input row: group g's number i reads the
  // elements start[g] + places[32 g + 2 i] and the next, and those by 2 * channels further for
  // every two taps more. pairs holds their weights: [group][taps / 2][number][2]. Not grouped
  // where a group needs more.
  bool grouped = false;
  std::vector<int> start;
  std::vector<std::int16_t> places, pairs;
};
inline constexpr int kGroup = 16;
void make_groups(ResizeWeights& weights, int channels);

// `taps` is rounded up to a multiple of these.
inline constexpr int kVerticalTaps = 2, kRgbTaps = 2, kGreyTaps = 8, kGroupTaps = 2;
// A row handed to horizontal() is readable for this many elements beyond its last tap.
inline constexpr int kRowSlack = 64;

struct ResizeRows {
  // out[i] = sum over k of weights[k] * rows[k][i], for i in [0, count).
  void (*vertical)(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                   int shift, int count, std::int16_t* out);
  void (*horizontal_rgb)(const std::int16_t* row, const ResizeWeights& weights, int count,
                         std::uint8_t* out);
  void (*horizontal_grey)(const std::int16_t* row, const ResizeWeights& weights, int count,
                          std::uint8_t* out);
  // Each grey value three times.
  void (*repeat_grey)(const std::uint8_t* grey, int count, std::uint8_t* rgb);
  bool groups;  // whether the horizontal passes use them
};
ResizeRows plain_resize_rows();
ResizeRows avx2_resize_rows();
ResizeRows avx512_resize_rows();
// Whether this processor has what avx512_resize_rows() needs.
bool has_avx512_rows();
// The best of this processor.
const ResizeRows& resize_rows();

}  // namespace trainer::data
