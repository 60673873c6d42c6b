// Files of tests that write thousands of them, for which no disk is waited for.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string_view>

#include "base/files/files.h"

namespace trainer::test {

inline void write_unsynced(const Path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.exceptions(std::ios::badbit | std::ios::failbit);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
}

inline void write_unsynced(const Path& path, std::span<const std::uint8_t> content) {
  write_unsynced(path,
                 std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

}  // namespace trainer::test
