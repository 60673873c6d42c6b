#include "base/formats/zip.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"

namespace trainer {
namespace {

// Reads parts of an archive, which is in memory or a file, and checks each against its end.
class ZipReader {
 public:
  // The bytes or the file, and `source`, must outlive it.
  ZipReader(std::span<const std::uint8_t> bytes, const std::string& source)
      : bytes_(bytes), size_(bytes.size()), source_(source) {}
  ZipReader(const RandomAccessFile& file, const std::string& source)
      : file_(&file), size_(file.size()), source_(source) {}

  std::uint64_t size() const { return size_; }
  void check_within(std::uint64_t offset, std::uint64_t size) const {
    if (offset <= size_ && size <= size_ - offset) return;
    throw DataError(source_, "is a damaged zip archive: a record ends beyond the file");
  }
  Bytes read(std::uint64_t offset, std::uint64_t size) const {
    check_within(offset, size);
    Bytes bytes(size);
    copy(offset, bytes);
    return bytes;
  }
  // Reads a little-endian number.
  template <class T>
  T at(std::uint64_t offset) const {
    check_within(offset, sizeof(T));
    T value;
    copy(offset, {reinterpret_cast<std::uint8_t*>(&value), sizeof value});
    return value;
  }

 private:
  void copy(std::uint64_t offset, std::span<std::uint8_t> to) const {
    if (file_ != nullptr) return file_->read(offset, to);
    if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
  }

  std::span<const std::uint8_t> bytes_;
  const RandomAccessFile* file_ = nullptr;
  std::uint64_t size_;
  const std::string& source_;
};

constexpr std::uint32_t kDirectoryEntry = 0x02014b50, kDirectoryEnd = 0x06054b50,
                        kZip64Locator = 0x07064b50;

struct Directory {
  std::uint64_t start = 0;
  std::uint64_t entries = 0;
};

Directory find_directory(const ZipReader& zip, const std::string& source) {
  // The last record is 22 bytes and a comment of at most 65535. That of zip64 is before it.
  constexpr std::uint64_t kRecord = 22, kMaxComment = 65535, kLocator = 20;
  const std::uint64_t kept = std::min(zip.size(), kLocator + kRecord + kMaxComment);
  const std::uint64_t first = zip.size() - kept;
  const Bytes tail = zip.read(first, kept);
  const ZipReader records(tail, source);
  for (std::uint64_t back = kRecord; back <= kept && back <= kRecord + kMaxComment; ++back) {
    const std::uint64_t at = kept - back;
    if (records.at<std::uint32_t>(at) != kDirectoryEnd) continue;
    const std::uint64_t start = records.at<std::uint32_t>(at + 16);
    const std::uint64_t entries = records.at<std::uint16_t>(at + 10);
    if (start != 0xFFFFFFFFu && entries != 0xFFFFu) return {start, entries};
    if (at < kLocator || records.at<std::uint32_t>(at - kLocator) != kZip64Locator) {
      if (start != 0xFFFFFFFFu) return {start, entries};
      break;
    }
    const auto end = records.at<std::uint64_t>(at - kLocator + 8);
    zip.check_within(end, 56);
    return {zip.at<std::uint64_t>(end + 48), zip.at<std::uint64_t>(end + 32)};
  }
  throw DataError(source, "is not a zip archive or is truncated: it has no zip directory");
}

// Replaces values of 0xFFFFFFFF by those of the entry's zip64 field, which has them in this order.
void read_zip64(const ZipReader& records, std::uint64_t at, std::uint64_t end, ZipMember& member) {
  while (at + 4 <= end) {
    const auto id = records.at<std::uint16_t>(at);
    std::uint64_t field = at + 4;
    at = field + records.at<std::uint16_t>(at + 2);
    if (id != 1) continue;
    for (std::uint64_t* value : {&member.size, &member.packed, &member.header}) {
      if (*value != 0xFFFFFFFFu) continue;
      *value = records.at<std::uint64_t>(field);
      field += 8;
    }
  }
}

// Returns the entries of the directory at the start of these records, without their
// ZipMember::data.
std::vector<ZipMember> read_entries(const ZipReader& records) {
  std::vector<ZipMember> members;
  std::uint64_t at = 0;
  while (at + 46 <= records.size() && records.at<std::uint32_t>(at) == kDirectoryEntry) {
    ZipMember member;
    member.flags = records.at<std::uint16_t>(at + 8);
    member.method = records.at<std::uint16_t>(at + 10);
    member.crc = records.at<std::uint32_t>(at + 16);
    member.packed = records.at<std::uint32_t>(at + 20);
    member.size = records.at<std::uint32_t>(at + 24);
    member.header = records.at<std::uint32_t>(at + 42);
    const std::uint64_t name_size = records.at<std::uint16_t>(at + 28);
    const std::uint64_t extra_size = records.at<std::uint16_t>(at + 30);
    const Bytes name = records.read(at + 46, name_size);
    member.name.assign(name.begin(), name.end());
    read_zip64(records, at + 46 + name_size, at + 46 + name_size + extra_size, member);
    members.push_back(std::move(member));
    at += 46 + name_size + extra_size + records.at<std::uint16_t>(at + 32);
  }
  return members;
}

// Members that share bytes would make a small archive unpack to any size.
void check_apart(const std::vector<ZipMember>& members, const std::string& source) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const ZipMember& member : members) {
    ranges.emplace_back(member.header, member.data + member.packed);
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      throw DataError(source, "is a damaged zip archive: two of its members share bytes");
    }
  }
}

// Returns whether a directory begins here. At a wrong place its length could be that of the file.
bool has_entry(const ZipReader& zip, std::uint64_t start) {
  constexpr std::uint64_t kSize = sizeof kDirectoryEntry;
  return zip.size() >= kSize && start <= zip.size() - kSize &&
         zip.at<std::uint32_t>(start) == kDirectoryEntry;
}

std::vector<ZipMember> read_members(const ZipReader& zip, const std::string& source) {
  const Directory directory = find_directory(zip, source);
  std::vector<ZipMember> members;
  if (has_entry(zip, directory.start)) {
    // Only the last records follow the directory.
    const Bytes bytes = zip.read(directory.start, zip.size() - directory.start);
    members = read_entries(ZipReader(bytes, source));
  }
  if (members.size() != directory.entries) {
    throw DataError(source, "is a damaged zip archive: its directory has ", members.size(), " of ",
                    directory.entries, " entries");
  }
  for (ZipMember& member : members) {
    constexpr std::uint64_t kSizes = 26, kName = 30;  // offsets in the header of a member
    zip.check_within(member.header, kName);
    const auto sizes = zip.at<std::uint32_t>(member.header + kSizes);
    member.data = member.header + kName + (sizes & 0xFFFF) + (sizes >> 16);
    zip.check_within(member.data, member.packed);
  }
  check_apart(members, source);
  return members;
}

// Returns the bytes of a member, which lie in the archive.
std::span<const std::uint8_t> packed_bytes(std::span<const std::uint8_t> archive,
                                           const ZipMember& member, const std::string& source) {
  ZipReader(archive, source).check_within(member.data, member.packed);
  return archive.subspan(member.data, member.packed);
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

}  // namespace

std::vector<ZipMember> zip_members(std::span<const std::uint8_t> archive,
                                   const std::string& source) {
  return read_members(ZipReader(archive, source), source);
}

std::vector<ZipMember> zip_members(const RandomAccessFile& archive, const std::string& source) {
  return read_members(ZipReader(archive, source), source);
}

std::size_t zip_size(std::span<const std::uint8_t> archive, const ZipMember& member,
                     const std::string& source) {
  const std::size_t packed = packed_bytes(archive, member, source).size();
  if (member.method == kZipStored) return packed;
  // DEFLATE cannot shrink more than 1032 times.
  if (member.size > packed * 1032 + 64) {
    throw DataError(source,
                    "is a damaged zip archive: a member claims more bytes than it can have");
  }
  constexpr std::size_t kMinBytes = 320 << 20, kMaxExpansion = 64;
  if (member.size > std::max(kMinBytes, packed * kMaxExpansion)) {
    throw DataError(source, "has ", packed, " bytes, which expand to ", member.size,
                    "; store it without compression if that is right");
  }
  return member.size;
}

void unzip(std::span<const std::uint8_t> archive, const ZipMember& member,
           std::span<std::uint8_t> to, const std::string& source) {
  const auto packed = packed_bytes(archive, member, source);
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
    throw DataError(source, "is compressed with zip method ", method,
                    "; only stored and deflated members can be read");
  }
  if (libdeflate_crc32(0, to.data(), to.size()) != crc) {
    throw DataError(source, "its checksum does not match: the file is damaged");
  }
}

}  // namespace trainer
