// The values of 16-bit files and the part of them that data.range uses. Without data.range such a
// value gives its upper byte. The range is one pair of numbers for the whole set: a scale of its
// own for each file would hide differences in exposure, which may be what distinguishes the
// classes. The run stores the numbers, so that evaluation and prediction use those of training.
// 8-bit files keep their values, and PNM files contain their own maximum.
#pragma once

#include <optional>

#include "base/notice.h"
#include "config/config.h"
#include "data/images/listing/image_list.h"

namespace trainer::data {

// The values found in some files of a list.
struct MeasuredValues {
  std::int64_t files = 0;     // counts the files that were read
  std::int64_t files_16 = 0;  // counts the PNG and TIFF files with 16 bits per value
  int max = 0;                // the largest of their values, without alpha
};

// Reads up to `max_files` files spread evenly over the list; leaves out files that cannot be read.
// Decodes up to `max_pixels` pixels and at least one file of 16 bits; leaves out files that would
// exceed that.
MeasuredValues measure_values(const ImageList& list, const config::Data& data,
                              std::int64_t max_files, std::int64_t max_pixels);

// Returns the range that data.range: auto chooses: from 0 to the smallest 2^n - 1, at least 255,
// that the largest value does not exceed, so that a file more or less seldom changes it. Returns
// nothing if no file has 16 bits.
std::optional<config::ValueRange> choose_range(const MeasuredValues& measured);

// Measures the training split as data.range asks for, replaces `auto` in `data` by the chosen
// range, and returns the line on the range that is used; "" if no measured file has 16 bits. It is
// a warning if more than half of the 256 levels are lost without data.range.
Notice resolve_range(const ImageList& train, config::Data& data);

}  // namespace trainer::data
