// The lines that the hook of progress prints at the end of a run.
#pragma once

#include <string>

#include "hooks/support.h"

namespace trainer::hooks::test {

inline constexpr const char* kClosing =
    "wall time: 12.346 seconds\n"
    "total time with 2 CPU threads: 10.500 seconds\n"
    "21345.7 images/second with 2 CPU threads\n";

// Returns the last line of a run that was not interrupted.
inline std::string next(const std::string& run) {
  return "next: trainer evaluate " + run + ", or trainer predict " + run + " IMAGE...\n";
}

// Returns the text without each occurrence of `what`.
inline std::string without(std::string text, const std::string& what) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;) text.erase(at, what.size());
  return text;
}

}  // namespace trainer::hooks::test
