// Ownership of file descriptors, and whole reads and writes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <utility>

namespace trainer {

// Owns a file descriptor, or none, and closes it without a change of errno.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    const int error = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    errno = error;
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// Opens a regular file to read. Throws DataError for another file, or if it cannot be opened; Error
// where a limit of open files is the reason, because a caller may skip a file after a DataError.
Descriptor open_regular_file(const std::filesystem::path& path);

// The bytes that were moved, and the error number of the last call; 0 also at the end of a file.
struct Moved {
  std::size_t bytes = 0;
  int error = 0;
};
// Calls move(bytes done), which reads or writes some of the others, until all are moved.
template <class Move>
Moved move_all(std::size_t count, const Move& move) {
  Moved moved;
  while (moved.bytes < count) {
    const ssize_t more = move(moved.bytes);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return {moved.bytes, more < 0 ? errno : 0};
    moved.bytes += static_cast<std::size_t>(more);
  }
  return moved;
}

}  // namespace trainer
