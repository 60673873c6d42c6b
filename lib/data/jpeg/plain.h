// Decodes plain JPEG files, that is nearly all, faster than libjpeg and to the same pixels.
#pragma once

#include "data/decode/pixels.h"
#include "data/jpeg/header.h"

namespace trainer::data::jpeg {

// Decodes the file to 1 channel (if it is grey or `channels` is 1) or 3, at 1 / reduce of its size
// (1, 2, 4 or 8), rounded up. Returns false and leaves `out` undefined if the processor lacks
// instructions, if this kind of file is not supported, or if the file is damaged: libjpeg then has
// to decode it.
bool decode_plain(File file, const Header& header, int channels, int reduce, Pixels& out);

}  // namespace trainer::data::jpeg
