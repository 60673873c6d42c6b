// Files that may be compressed with gzip.
#pragma once

#include "data/arrays/array.h"

namespace trainer::data {

// Returns the bytes of a file, decompressed if its content, not its name, is that of a gzip file.
// Throws DataError.
Buffer read_maybe_gzip(const Path& path);

}  // namespace trainer::data
