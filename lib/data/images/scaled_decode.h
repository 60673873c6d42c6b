// Measures how much decoding JPEGs at a fraction of their size changes pixels. Such pixels are
// averages over blocks and differ by some levels from those of tf.image.resize. `plan` and `data`
// print the difference.
#pragma once

#include <cstdint>
#include <string>

#include "config/sections/data.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {

// Distances between the pixels with data.scaled_decode and those of decoding at full size, over
// some files of a list as data.fit cuts them.
struct ScaledDecode {
  std::int64_t measured = 0;  // files
  std::int64_t scaled = 0;    // measured files that are decoded at 1/2, 1/4 or 1/8
  double mean = 0;            // levels, over the scaled files
  int max = 0;                // levels
};
// Decodes at most eight files twice and leaves out files that cannot be read. Returns zeros if
// data.scaled_decode is off.
ScaledDecode measure_scaled_decode(const ImageList& list, const config::Data& data);

// Returns a line about it for the user, "" if no measured file is decoded at a fraction of its
// size.
std::string scaled_decode_note(const ImageList& list, const config::Data& data);

}  // namespace trainer::data
