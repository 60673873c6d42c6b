// Zip archives (.npz, .keras, .zip): members that are stored or deflated, zip64 too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/files/random_access_file.h"

namespace trainer {

// Methods of compression that can be read.
inline constexpr std::uint16_t kZipStored = 0, kZipDeflated = 8;

struct ZipMember {
  std::string name;
  std::uint16_t flags = 0, method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, header = 0;
  std::uint64_t data = 0;  // the place of the `packed` bytes in the archive

  bool is_encrypted() const { return (flags & 1) != 0; }
};

// Lists the members of an archive in memory. `source` names the archive in messages. Throws
// DataError.
std::vector<ZipMember> zip_members(std::span<const std::uint8_t> archive,
                                   const std::string& source);
// Does the same for an archive in a file, of which it reads the directory and the header of each
// member.
std::vector<ZipMember> zip_members(const RandomAccessFile& archive, const std::string& source);

// Returns the size that a member claims to have. Throws DataError if its bytes cannot expand to it.
// Call it before you allocate memory for the member.
std::size_t zip_size(std::span<const std::uint8_t> archive, const ZipMember& member,
                     const std::string& source);
// Unpacks a member into exactly zip_size() bytes and checks them. Throws DataError.
void unzip(std::span<const std::uint8_t> archive, const ZipMember& member,
           std::span<std::uint8_t> to, const std::string& source);
// Does the same for the packed bytes of a member with this method and checksum.
void unpack_zip_member(std::span<const std::uint8_t> packed, std::uint16_t method,
                       std::uint32_t crc, std::span<std::uint8_t> to, const std::string& source);

}  // namespace trainer
