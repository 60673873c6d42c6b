// Writes messages of protocol buffers field by field.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace trainer {

static_assert(std::endian::native == std::endian::little, "the messages are little-endian");

// Returns a number as it lies in memory.
template <class Number>
std::string raw_bytes(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

class ProtoMessage {
 public:
  ProtoMessage& number(int field, std::int64_t value) {  // int32, int64, enums, bool
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& real(int field, float value) {
    key(field, 5);
    bytes_ += raw_bytes(value);
    return *this;
  }
  ProtoMessage& real(int field, double value) {
    key(field, 1);
    bytes_ += raw_bytes(value);
    return *this;
  }
  ProtoMessage& text(int field, std::string_view value) {  // string, bytes
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  ProtoMessage& message(int field, const ProtoMessage& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
  }
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<char>(value | 128));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

}  // namespace trainer
