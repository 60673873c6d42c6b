// Decodes JPEG files with libjpeg.
#pragma once

#include <string>

#include "data/decode/decoder.h"

namespace trainer::data {

// Decodes with libjpeg alone, which defines the right pixels, warnings and errors. Throws
// DataError.
std::string decode_with_libjpeg(EncodedBytes file, const std::string& path, int channels,
                                int reduce, Pixels& out);

}  // namespace trainer::data
