// Errors about files, folders and class names, which may contain any bytes.
#pragma once

#include <string>

#include "base/error.h"
#include "base/text.h"

namespace trainer::data {

// Returns the error of a file, folder or line. Control characters in `place` and `message`, such as
// line ends in the name of a file, become \xNN.
inline DataError make_error(const std::string& place, const std::string& message) {
  return {printable(place), printable(message)};
}

}  // namespace trainer::data
