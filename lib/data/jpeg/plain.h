// Plain JPEG files, which nearly all are, decoded faster than libjpeg does and to the same bits.
#pragma once

#include "data/decode/pixels.h"
#include "data/jpeg/header.h"

namespace trainer::data::jpeg {

// Decodes the file to 1 channel (a grey file, or `channels` is 1) or 3 at 1 / reduce of its size
// (1, 2, 4 or 8), rounded up. False, with `out` undefined, when this processor or the kind of file
// is none for it, or when the file is damaged in any way: libjpeg then has to judge it.
bool decode_plain(File file, const Header& header, int channels, int reduce, Pixels& out);

}  // namespace trainer::data::jpeg
