// Zip archives for tests, with all forms that the program reads and some that it rejects.
#pragma once

#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::test {

struct ZipEntry {
  std::string name;
  std::string content;
  std::uint16_t method = 0;  // 8: deflated
  std::uint16_t flags = 0;
};

// Appends the lowest byte first; bytes beyond the eighth are 0.
inline void put_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) out += static_cast<char>(value & 255);
}

inline std::string deflate(const std::string& content) {
  libdeflate_compressor* const compressor = libdeflate_alloc_compressor(6);
  std::string packed(libdeflate_deflate_compress_bound(compressor, content.size()), '\0');
  packed.resize(libdeflate_deflate_compress(compressor, content.data(), content.size(),
                                            packed.data(), packed.size()));
  libdeflate_free_compressor(compressor);
  return packed;
}

enum class Zip64 { kNo, kYes };

// Returns an archive. With kYes, sizes and places are in zip64 fields of the directory.
inline std::string pack_zip(const std::vector<ZipEntry>& entries, Zip64 zip64 = Zip64::kNo) {
  const bool wide = zip64 == Zip64::kYes;
  std::string zip, directory;
  for (const ZipEntry& entry : entries) {
    const std::string packed = entry.method == 8 ? deflate(entry.content) : entry.content;
    const std::uint32_t crc = libdeflate_crc32(0, entry.content.data(), entry.content.size());
    const std::size_t place = zip.size();
    for (std::string* out : {&zip, &directory}) {
      const bool central = out == &directory;
      put_number(*out, central ? 0x02014b50 : 0x04034b50, 4);
      if (central) put_number(*out, 45, 2);
      put_number(*out, 45, 2);
      put_number(*out, entry.flags, 2);
      put_number(*out, entry.method, 2);
      put_number(*out, 0, 4);  // time
      put_number(*out, crc, 4);
      const bool moved = central && wide;
      put_number(*out, moved ? 0xFFFFFFFF : packed.size(), 4);
      put_number(*out, moved ? 0xFFFFFFFF : entry.content.size(), 4);
      put_number(*out, entry.name.size(), 2);
      put_number(*out, moved ? 28 : 0, 2);  // extra field
      if (central) {
        put_number(*out, 0, 10);  // comment, disk, attributes
        put_number(*out, wide ? 0xFFFFFFFF : place, 4);
      }
      *out += entry.name;
      if (!moved) continue;
      put_number(*out, 1, 2);
      put_number(*out, 24, 2);
      put_number(*out, entry.content.size(), 8);
      put_number(*out, packed.size(), 8);
      put_number(*out, place, 8);
    }
    zip += packed;
  }
  const std::size_t start = zip.size();
  zip += directory;
  if (wide) {
    const std::size_t end = zip.size();
    put_number(zip, 0x06064b50, 4);
    put_number(zip, 44, 8);
    put_number(zip, 45, 2);
    put_number(zip, 45, 2);
    put_number(zip, 0, 8);
    put_number(zip, entries.size(), 8);
    put_number(zip, entries.size(), 8);
    put_number(zip, directory.size(), 8);
    put_number(zip, start, 8);
    put_number(zip, 0x07064b50, 4);
    put_number(zip, 0, 4);
    put_number(zip, end, 8);
    put_number(zip, 1, 4);
  }
  put_number(zip, 0x06054b50, 4);
  put_number(zip, 0, 4);
  put_number(zip, wide ? 0xFFFF : entries.size(), 2);
  put_number(zip, wide ? 0xFFFF : entries.size(), 2);
  put_number(zip, wide ? 0xFFFFFFFF : directory.size(), 4);
  put_number(zip, wide ? 0xFFFFFFFF : start, 4);
  put_number(zip, 0, 2);
  return zip;
}

// Writes an archive of the files below a folder, stored, with their paths relative to it.
inline void archive_folder(const Path& folder, const Path& archive) {
  std::vector<ZipEntry> entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    entries.push_back(
        {entry.path().lexically_relative(folder).generic_string(), read_text_file(entry.path())});
  }
  std::ranges::sort(entries, {}, &ZipEntry::name);
  write_file_atomic(archive, pack_zip(entries));
}

}  // namespace trainer::test
