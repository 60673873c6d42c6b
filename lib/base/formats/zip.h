// Zip archives (.npz, .keras): members that are stored or deflated, zip64 too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer {

struct ZipMember {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0, header = 0;
};

// The members of an archive in memory. `source` is used in messages. Throws DataError.
std::vector<ZipMember> zip_members(std::span<const std::uint8_t> archive,
                                   const std::string& source);

// How large a member claims to be, when its bytes can be so many: to be called before memory is
// taken.
std::size_t zip_size(std::span<const std::uint8_t> archive, const ZipMember& member,
                     const std::string& source);
// Unpacks a member into exactly zip_size() bytes and checks them. Throws DataError.
void unzip(std::span<const std::uint8_t> archive, const ZipMember& member,
           std::span<std::uint8_t> to, const std::string& source);

}  // namespace trainer
