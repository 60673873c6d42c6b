#include "data/decode/byte_reader.h"

#include "base/error.h"
#include "base/text.h"

namespace trainer::data {

void ByteReader::seek(std::size_t position, const char* what) {
  if (position > file_.size()) {
    fail(concat("is truncated: ", what, " should begin at byte ", position,
                ", but the file ends after ", file_.size()));
  }
  at_ = position;
}

EncodedBytes ByteReader::take(std::size_t bytes, const char* what) {
  if (bytes > left()) {
    fail(concat("is truncated: the file ends after ", file_.size(), " bytes; ",
                counted(bytes - left(), "byte"), " of ", what,
                bytes - left() == 1 ? " is missing" : " are missing"));
  }
  at_ += bytes;
  return file_.subspan(at_ - bytes, bytes);
}

std::uint32_t ByteReader::u16_little(const char* what) {
  const EncodedBytes b = take(2, what);
  return std::uint32_t{b[0]} | std::uint32_t{b[1]} << 8;
}

std::uint32_t ByteReader::u32_little(const char* what) {
  const std::uint32_t low = u16_little(what);
  return low | u16_little(what) << 16;
}

std::uint32_t ByteReader::u16_big(const char* what) {
  const EncodedBytes b = take(2, what);
  return std::uint32_t{b[0]} << 8 | std::uint32_t{b[1]};
}

std::uint32_t ByteReader::u32_big(const char* what) {
  const std::uint32_t high = u16_big(what);
  return high << 16 | u16_big(what);
}

void ByteReader::fail(const std::string& message) const {
  throw DataError(path_, to_string(kind_), ": ", message);
}

}  // namespace trainer::data
