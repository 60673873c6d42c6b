// Texts that are compared with a file of test/golden, line by line.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "base/files/files.h"
#include "support/source_files.h"

namespace trainer::test {

// The lines that differ, each as it is and as it was expected; "" where the texts are the same.
inline std::string differences(const std::string& text, const std::string& expected) {
  if (text == expected) return "";
  std::istringstream lines(text), wanted_lines(expected);
  std::ostringstream out;
  for (int number = 1;; ++number) {
    std::string line, wanted;
    const bool has_line = static_cast<bool>(std::getline(lines, line));
    const bool is_wanted = static_cast<bool>(std::getline(wanted_lines, wanted));
    if (!has_line && !is_wanted) break;
    if (has_line && is_wanted && line == wanted) continue;
    out << "\nline " << number << ": " << (has_line ? line : "(the text has ended)")
        << "\nexpected: " << (is_wanted ? wanted : "(the end of the text)");
  }
  return out.str().empty() ? "\nthe newline at the end" : out.str();
}

// TRAINER_UPDATE_GOLDEN=1 writes the file.
inline void check_golden(const std::string& name, const std::string& text) {
  const std::string golden = source_file("test/golden/" + name);
  if (std::getenv("TRAINER_UPDATE_GOLDEN") != nullptr) write_file_atomic(golden, text);
  const std::string different = differences(text, read_text_file(golden));
  CHECK_MESSAGE(different.empty(), golden, different,
                "\nrun with TRAINER_UPDATE_GOLDEN=1 to accept");
}

}  // namespace trainer::test
