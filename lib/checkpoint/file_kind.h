// Recognises files by their first bytes, for messages about unexpected ones: "is an HDF5 file".
#pragma once

#include <string>

#include "base/files/files.h"

namespace trainer::checkpoint {

std::string describe_kind(const Path& path);

}  // namespace trainer::checkpoint
