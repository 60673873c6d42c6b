// The inner loops of resizing in plain C++, for AVX2 and for AVX-512, with equal results.
#pragma once

#include <cstdint>
#include <vector>

namespace trainer::data {

// The number of fraction bits of rows between the two passes.
inline constexpr int kRowFraction = 6;

// Output i is the sum over k of values[i * taps + k] * input[first[i] + k], divided by 2^shift.
// Taps that an output does not need have the weight 0; their first[i] + k may be beyond the input.
struct ResizeWeights {
  int taps = 0;
  int shift = 0;
  std::vector<int> first;
  std::vector<std::int16_t> values;

  // True if the weights are also given for groups of 16 numbers of a row of interleaved channels.
  // For its first two taps, number i of group g reads the elements start[g] + places[32 g + 2 i]
  // and start[g] + places[32 g + 2 i + 1] of the input row, and for every two further taps elements
  // that are 2 * channels later. `pairs` has the weights: [group][taps / 2][number][2]. `grouped`
  // is false if two taps of a group need more than 64 consecutive elements.
  bool grouped = false;
  std::vector<int> start;
  std::vector<std::int16_t> places, pairs;
};
inline constexpr int kGroup = 16;
// Sets `grouped` and the members below it.
void make_groups(ResizeWeights& weights, int channels);

// `taps` is rounded up to a multiple of these.
inline constexpr int kVerticalTaps = 2, kRgbTaps = 2, kGreyTaps = 8, kGroupTaps = 2;
// The number of elements beyond its last tap for which a row of a horizontal pass must be readable.
inline constexpr int kRowSlack = 64;

struct ResizeRows {
  // out[i] = sum over k of weights[k] * rows[k][i], for i in [0, count).
  void (*vertical)(const std::uint8_t* const* rows, const std::int16_t* weights, int taps,
                   int shift, int count, std::int16_t* out);
  void (*horizontal_rgb)(const std::int16_t* row, const ResizeWeights& weights, int count,
                         std::uint8_t* out);
  void (*horizontal_grey)(const std::int16_t* row, const ResizeWeights& weights, int count,
                          std::uint8_t* out);
  // Writes each grey value three times.
  void (*repeat_grey)(const std::uint8_t* grey, int count, std::uint8_t* rgb);
  bool groups;  // the horizontal passes use groups of weights
};
ResizeRows plain_resize_rows();
ResizeRows avx2_resize_rows();
ResizeRows avx512_resize_rows();
// Returns whether this processor has the instructions of avx512_resize_rows().
bool has_avx512_rows();
// Returns the fastest loops of this processor.
const ResizeRows& resize_rows();

}  // namespace trainer::data
