// Reads the bytes of an HDF5 file and checks every access. Internal to checkpoint.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"

namespace trainer::checkpoint::hdf5 {

using View = std::span<const std::uint8_t>;

// The address of a structure that was never stored.
constexpr std::uint64_t kUndefined = ~std::uint64_t{0};

// A file in memory. Structures of a sound file lie apart and each is read once, so that what they
// claim together is at most the file's size: this bounds time and memory and ends every cycle.
class Input {
 public:
  Input(std::string path, View content)
      : path_(std::move(path)),
        content_(content),
        unclaimed_(content.size()),
        text_left_(content.size()) {}

  std::uint64_t size() const { return content_.size(); }
  // Returns the bytes of a structure and subtracts them from those that may still be claimed.
  View claim(std::uint64_t address, std::uint64_t size, const char* what);
  // Returns the 4 bytes that identify a structure, without claiming them.
  View peek(std::uint64_t address, const char* what) const;
  // Returns the text at `offset`, which ends with a zero at the latest where `bytes` end.
  std::string_view text_at(View bytes, std::uint64_t offset, const char* what) const;
  // Returns a copy of a text and subtracts it from the texts that the file may have.
  std::string copied(std::string_view text);

  // Both throw the DataError of this file.
  [[noreturn]] void damaged(const std::string& what) const;
  [[noreturn]] void unsupported(const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_, what); }

 private:
  std::string path_;
  View content_;
  std::uint64_t unclaimed_, text_left_;
};

// Reads the fields of one structure in order. HDF5's numbers are little-endian, like this
// machine's.
class Fields {
 public:
  Fields(const Input& input, View bytes, const char* what)
      : input_(input), bytes_(bytes), what_(what) {}

  template <class T>
  T next() {
    const View field = take(sizeof(T));
    T value;
    std::memcpy(&value, field.data(), sizeof value);
    return value;
  }
  // Reads a number of `width` bytes, at most 8.
  std::uint64_t number(std::size_t width);
  View take(std::uint64_t size);
  void skip(std::uint64_t size) { take(size); }
  // Throws unless the next bytes are `text`.
  void expect(std::string_view text);
  std::size_t left() const { return bytes_.size() - at_; }
  std::size_t position() const { return at_; }

 private:
  const Input& input_;
  View bytes_;
  std::size_t at_ = 0;
  const char* what_;
};

// Computes Bob Jenkins' lookup3 with the initial value 0, HDF5's checksum of structures.
std::uint32_t lookup3(View bytes);

}  // namespace trainer::checkpoint::hdf5
