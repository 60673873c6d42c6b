// The file in which a download grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/files/files.h"

namespace trainer::commands {

// Returns the digest of an open file from its start. Throws DataError naming `path`.
std::string hash_file(int descriptor, const Path& path, Digest::Algorithm algorithm);

// ".<name>.part" beside the file, which keeps what an interrupted download received. Where the file
// system has locks, it is locked against other processes.
class PartFile {
 public:
  // Opens it, and makes it if there is none. Throws DataError, also if another process has it or it
  // is a link.
  explicit PartFile(const Path& file);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const Path& path() const { return path_; }
  std::int64_t bytes() const;
  // Returns the first `count` bytes, or all if there are fewer.
  std::string start(std::size_t count) const;
  std::string digest(Digest::Algorithm algorithm) const;

  // Appends all bytes. Returns 0 or an error number.
  int append(const char* data, std::size_t count);
  void clear();   // makes the file empty
  void remove();  // the file itself
  // Flushes the file and gives it its name.
  void publish(const Path& file);

 private:
  Path path_;
  int descriptor_ = -1;
};

}  // namespace trainer::commands
