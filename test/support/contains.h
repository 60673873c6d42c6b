// Finds a part of a text.
#pragma once

#include <string>

namespace trainer::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace trainer::test
