// HDF5 files put together byte by byte, as the "HDF5 File Format Specification Version 3.0"
// describes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "checkpoint/hdf5/input.h"

namespace trainer::checkpoint::hdf5::raw {

// Little-endian numbers and texts, one after another.
class Raw {
 public:
  Raw& u8(std::uint64_t value) { return number(value, 1); }
  Raw& u16(std::uint64_t value) { return number(value, 2); }
  Raw& u32(std::uint64_t value) { return number(value, 4); }
  Raw& u64(std::uint64_t value) { return number(value, 8); }
  Raw& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count, 0);
    return *this;
  }
  Raw& text(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  Raw& add(const Bytes& other) {
    bytes_.insert(bytes_.end(), other.begin(), other.end());
    return *this;
  }
  Raw& floats(const std::vector<float>& values) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size() * sizeof(float));
    return *this;
  }
  // Zeros up to a multiple of 8, or up to a size.
  Raw& pad() { return zeros((8 - bytes_.size() % 8) % 8); }
  Raw& pad_to(std::size_t size) { return zeros(size - bytes_.size()); }
  Raw& checksum() { return u32(lookup3(bytes_)); }
  std::size_t size() const { return bytes_.size(); }
  operator const Bytes&() const { return bytes_; }  // NOLINT

 private:
  Raw& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> 8 * i));
    return *this;
  }

  Bytes bytes_;
};

struct RawMessage {
  unsigned type;
  Bytes body;
  unsigned flags = 0;
};

enum : unsigned {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
  kSharedFlag = 2
};

inline Bytes messages_v1(const std::vector<RawMessage>& messages) {
  Raw raw;
  for (const RawMessage& each : messages) {
    raw.u16(each.type).u16(each.body.size()).u8(each.flags).zeros(3).add(each.body);
  }
  return raw;
}

inline Bytes header_v1(const std::vector<RawMessage>& messages) {
  const Bytes body = messages_v1(messages);
  return Raw().u8(1).u8(0).u16(messages.size()).u32(1).u32(body.size()).u32(0).add(body);
}

inline Bytes superblock_v0(std::uint64_t root, std::uint64_t end) {
  return Raw()
      .text("\x89HDF\r\n\x1a\n")
      .u32(0)  // versions
      .u8(0)
      .u8(8)
      .u8(8)
      .u8(0)
      .u16(4)
      .u16(16)
      .u32(0)
      .u64(0)
      .u64(kUndefined)
      .u64(end)
      .u64(kUndefined)
      .u64(0)
      .u64(root)
      .zeros(24);
}

inline Bytes link(std::string_view name, std::uint64_t address) {
  return Raw().u8(1).u8(0).u8(name.size()).text(name).u64(address);
}

// Where the parts of make_file() lie.
constexpr std::uint64_t kRoot = 96, kObject = 256, kData = 2048;

// A file whose root links "d" to an object with these messages, with `data` at kData.
inline Bytes make_file(const std::vector<RawMessage>& object, const Bytes& data) {
  return Raw()
      .add(superblock_v0(kRoot, kData + data.size()))
      .add(header_v1({{kLink, link("d", kObject)}}))
      .pad_to(kObject)
      .add(header_v1(object))
      .pad_to(kData)
      .add(data);
}

inline Bytes dataspace(const std::vector<std::uint64_t>& extents) {
  Raw raw;
  raw.u8(1).u8(extents.size()).zeros(6);
  for (const std::uint64_t extent : extents) raw.u64(extent);
  return raw;
}

inline Bytes integer_type(unsigned bytes, bool is_signed, bool big_endian) {
  const unsigned bits = (big_endian ? 1 : 0) + (is_signed ? 8 : 0);
  return Raw().u8(0x10).u8(bits).u16(0).u32(bytes).u16(0).u16(8 * bytes);
}

struct FloatType {
  unsigned bytes = 4, offset = 0, precision = 32, exponent_at = 23, exponent_bits = 8,
           fraction_at = 0, fraction_bits = 23, bias = 127;
  bool big_endian = false;
};

inline Bytes float_type(const FloatType& type = {}) {
  return Raw()
      .u8(0x11)
      .u8(type.big_endian ? 0x21 : 0x20)
      .u8(8 * type.bytes - 1)
      .u8(0)
      .u32(type.bytes)
      .u16(type.offset)
      .u16(type.precision)
      .u8(type.exponent_at)
      .u8(type.exponent_bits)
      .u8(type.fraction_at)
      .u8(type.fraction_bits)
      .u32(type.bias);
}

inline Bytes contiguous(std::uint64_t address, std::uint64_t size) {
  return Raw().u8(3).u8(1).u64(address).u64(size);
}

}  // namespace trainer::checkpoint::hdf5::raw
