// NPY and NPZ, the files of NumPy.
#pragma once

#include <string>
#include <vector>

#include "data/arrays/array.h"

namespace trainer::data {

Array read_npy(const Path& path);
bool is_zip(const Path& path);
// The names of the arrays of an .npz file, and one of them.
std::vector<std::string> npz_names(const Path& path);
Array read_npz(const Path& path, const std::string& name);

}  // namespace trainer::data
