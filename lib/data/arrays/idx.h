// Reads IDX, the format of MNIST.
#pragma once

#include <string>

#include "data/arrays/array.h"

namespace trainer::data {

// Reads a file, which may be compressed with gzip. Throws DataError.
Array read_idx(const Path& path);
// Reads the content of a file; `source` names it in messages.
Array parse_idx(std::string source, Buffer content);
// Returns the file of a folder whose name is `stem`, "-" or ".", `kind`, and perhaps ".gz", as in
// train-images-idx3-ubyte and train-images.idx3-ubyte.gz; empty if there is none.
Path find_idx(const Path& folder, const std::string& stem, const std::string& kind);

}  // namespace trainer::data
