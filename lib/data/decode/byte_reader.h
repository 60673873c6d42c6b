// Reads an image file in memory and never beyond its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/decode/image_info.h"

namespace trainer::data {

// Reads numbers and blocks of bytes one after the other. Every function throws DataError with the
// path and the missing part, `what`, if the file ends before it.
class ByteReader {
 public:
  // `path` is for messages and must outlive the reader.
  ByteReader(EncodedBytes file, const std::string& path, ImageKind kind)
      : file_(file), path_(path), kind_(kind) {}

  std::size_t position() const { return at_; }
  std::size_t left() const { return file_.size() - at_; }
  // Moves to a position from the start of the file, where `what` is.
  void seek(std::size_t position, const char* what);
  EncodedBytes take(std::size_t bytes, const char* what);
  std::uint32_t u8(const char* what) { return take(1, what)[0]; }
  std::uint32_t u16_little(const char* what);
  std::uint32_t u32_little(const char* what);
  std::uint32_t u16_big(const char* what);
  std::uint32_t u32_big(const char* what);

  // Throws DataError with "KIND: " and the message.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  EncodedBytes file_;
  const std::string& path_;
  ImageKind kind_;
  std::size_t at_ = 0;
};

}  // namespace trainer::data
