// What a file is that is not what was expected, told by its first bytes: "is an HDF5 file".
#pragma once

#include <string>

#include "base/files.h"

namespace trainer::checkpoint {

std::string describe_kind(const Path& path);

}  // namespace trainer::checkpoint
