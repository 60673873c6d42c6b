// Reads NPY and NPZ, the files of NumPy.
#pragma once

#include <string>
#include <vector>

#include "data/arrays/array.h"

namespace trainer::data {

// Reads an .npy file, which may be compressed with gzip. Throws DataError.
Array read_npy(const Path& path);
// Returns whether a file begins like a zip archive.
bool is_zip(const Path& path);
// Return the names of the arrays of an .npz file, and one of them. Throw DataError.
std::vector<std::string> npz_names(const Path& path);

Array read_npz(const Path& path, const std::string& name);

}  // namespace trainer::data
