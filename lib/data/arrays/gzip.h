// Files that may be compressed with gzip.
#pragma once

#include "data/arrays/array.h"

namespace trainer::data {

// The file's bytes, decompressed when it is a gzip file (told by its content, not its name).
Buffer read_maybe_gzip(const Path& path);

}  // namespace trainer::data
