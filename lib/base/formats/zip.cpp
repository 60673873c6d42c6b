#include "base/formats/zip.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace trainer {
namespace {

// Reads the little-endian numbers of a zip record and checks each against the end of the file.
class Fields {
 public:
  Fields(std::span<const std::uint8_t> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}
  template <class T>
  T at(std::size_t offset) const {
    if (offset + sizeof(T) > bytes_.size() || offset + sizeof(T) < offset) {
      throw DataError(source_, "is a damaged zip archive: a record ends beyond the file");
    }
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::span<const std::uint8_t> slice(std::size_t offset, std::size_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      throw DataError(source_, "is a damaged zip archive: a record ends beyond the file");
    }
    return bytes_.subspan(offset, size);
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::uint8_t> bytes_;
  const std::string& source_;
};

// Replaces values of 0xFFFFFFFF by those of the record's zip64 field, which has them in this order.
void read_zip64(const Fields& zip, std::size_t at, std::size_t end, ZipMember& member) {
  while (at + 4 <= end) {
    const auto id = zip.at<std::uint16_t>(at);
    std::size_t field = at + 4;
    at = field + zip.at<std::uint16_t>(at + 2);
    if (id != 1) continue;
    for (std::uint64_t* value : {&member.size, &member.packed, &member.header}) {
      if (*value != 0xFFFFFFFFu) continue;
      *value = zip.at<std::uint64_t>(field);
      field += 8;
    }
  }
}

struct Directory {
  std::uint64_t start = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(const Fields& zip, const std::string& source) {
  // The end record is 22 bytes and a comment of at most 65535.
  for (std::size_t back = 22; back <= zip.size() && back <= 22 + 65535; ++back) {
    const std::size_t at = zip.size() - back;
    if (zip.at<std::uint32_t>(at) != 0x06054b50) continue;
    const std::uint64_t start = zip.at<std::uint32_t>(at + 16);
    const std::uint64_t entries = zip.at<std::uint16_t>(at + 10);
    if (start != 0xFFFFFFFFu && entries != 0xFFFFu) return {start, entries};
    if (at < 20 || zip.at<std::uint32_t>(at - 20) != 0x07064b50) {
      if (start != 0xFFFFFFFFu) return {start, entries};
      break;
    }
    const std::uint64_t end = zip.at<std::uint64_t>(at - 20 + 8);
    return {zip.at<std::uint64_t>(end + 48), zip.at<std::uint64_t>(end + 32)};
  }
  throw DataError(source, "is not a zip archive or is truncated: it has no zip directory");
}

std::span<const std::uint8_t> packed_bytes(const Fields& zip, const ZipMember& member) {
  const std::size_t start = member.header + 30 + zip.at<std::uint16_t>(member.header + 26) +
                            zip.at<std::uint16_t>(member.header + 28);
  return zip.slice(start, member.packed);
}

// Members that share bytes would make a small archive unpack to any size.
void check_apart(const Fields& zip, const std::vector<ZipMember>& members,
                 const std::string& source) {
  std::vector<std::pair<const std::uint8_t*, const std::uint8_t*>> ranges;
  for (const ZipMember& member : members) {
    const auto packed = packed_bytes(zip, member);
    ranges.emplace_back(zip.slice(member.header, 0).data(), packed.data() + packed.size());
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      throw DataError(source, "is a damaged zip archive: two of its members share bytes");
    }
  }
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

}  // namespace

std::vector<ZipMember> zip_members(std::span<const std::uint8_t> archive,
                                   const std::string& source) {
  const Fields zip(archive, source);
  std::vector<ZipMember> members;
  const Directory directory = find_directory(zip, source);
  std::size_t at = directory.start;
  while (at + 46 <= zip.size() && zip.at<std::uint32_t>(at) == 0x02014b50) {
    ZipMember member;
    member.flags = zip.at<std::uint16_t>(at + 8);
    member.method = zip.at<std::uint16_t>(at + 10);
    member.crc = zip.at<std::uint32_t>(at + 16);
    member.packed = zip.at<std::uint32_t>(at + 20);
    member.size = zip.at<std::uint32_t>(at + 24);
    member.header = zip.at<std::uint32_t>(at + 42);
    const std::size_t name_size = zip.at<std::uint16_t>(at + 28);
    const std::size_t extra_size = zip.at<std::uint16_t>(at + 30);
    const auto name = zip.slice(at + 46, name_size);
    member.name.assign(name.begin(), name.end());
    read_zip64(zip, at + 46 + name_size, at + 46 + name_size + extra_size, member);
    members.push_back(std::move(member));
    at += 46 + name_size + extra_size + zip.at<std::uint16_t>(at + 32);
  }
  if (members.size() != directory.entries) {
    throw DataError(source, concat("is a damaged zip archive: its directory has ", members.size(),
                                   " of ", directory.entries, " entries"));
  }
  check_apart(zip, members, source);
  for (ZipMember& member : members) {
    member.data = static_cast<std::uint64_t>(packed_bytes(zip, member).data() - archive.data());
  }
  return members;
}

std::size_t zip_size(std::span<const std::uint8_t> archive, const ZipMember& member,
                     const std::string& source) {
  const std::size_t packed = packed_bytes(Fields(archive, source), member).size();
  if (member.method == kZipStored) return packed;
  // DEFLATE cannot shrink more than 1032 times.
  if (member.size > packed * 1032 + 64) {
    throw DataError(source,
                    "is a damaged zip archive: a member claims more bytes than it can have");
  }
  constexpr std::size_t kMinBytes = 320 << 20, kMaxExpansion = 64;
  if (member.size > std::max(kMinBytes, packed * kMaxExpansion)) {
    throw DataError(source, concat("has ", packed, " bytes, which expand to ", member.size,
                                   "; store it without compression if that is right"));
  }
  return member.size;
}

void unzip(std::span<const std::uint8_t> archive, const ZipMember& member,
           std::span<std::uint8_t> to, const std::string& source) {
  const auto packed = packed_bytes(Fields(archive, source), member);
  unpack_zip_member(packed, member.method, member.crc, to, source);
}

void unpack_zip_member(std::span<const std::uint8_t> packed, std::uint16_t method,
                       std::uint32_t crc, std::span<std::uint8_t> to, const std::string& source) {
  if (method == kZipStored) {
    if (!packed.empty() && packed.data() != to.data()) {
      std::memcpy(to.data(), packed.data(), packed.size());
    }
  } else if (method == kZipDeflated) {
    const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
        libdeflate_alloc_decompressor());
    if (libdeflate_deflate_decompress(decompressor.get(), packed.data(), packed.size(), to.data(),
                                      to.size(), nullptr) != LIBDEFLATE_SUCCESS) {
      throw DataError(source, "is damaged: a member cannot be decompressed; fetch the file again");
    }
  } else {
    throw DataError(source, concat("is compressed with zip method ", method,
                                   "; only stored and deflated members can be read"));
  }
  if (libdeflate_crc32(0, to.data(), to.size()) != crc) {
    throw DataError(source, "its checksum does not match: the file is damaged");
  }
}

}  // namespace trainer
