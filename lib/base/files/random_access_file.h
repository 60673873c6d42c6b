// A file that is read in parts.
#pragma once

#include <cstdint>
#include <span>

#include "base/files/descriptor.h"
#include "base/files/files.h"

namespace trainer {

// Another program may cut or replace the file meanwhile: then read() throws, or goes on to read the
// file that was opened. A mapped file would end the program with SIGBUS and without a message that
// names the file, so that no input is mapped. Without a map, the headers of the 50,000 images of
// CIFAR-10 in a zip archive take some 40 ms instead of 15 ms, of more than a second in which these
// images are read once.
class RandomAccessFile {
 public:
  // Throws DataError if `path` is not a regular file or cannot be opened.
  explicit RandomAccessFile(const Path& path);

  // The size of the file when it was opened.
  std::uint64_t size() const { return size_; }
  // Fills `to` with the bytes from `offset` on. Throws DataError if the file ends before or cannot
  // be read. Several threads may call it at once.
  void read(std::uint64_t offset, std::span<std::uint8_t> to) const;

 private:
  Path path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

}  // namespace trainer
