#include "base/files/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/system_error.h"

namespace trainer {

RandomAccessFile::RandomAccessFile(const Path& path) : path_(path), file_(open_regular_file(path)) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) {
    throw DataError(path.string(), "cannot open: " + describe_system_error(errno));
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

void RandomAccessFile::read(std::uint64_t offset, std::span<std::uint8_t> to) const {
  const Moved read = move_all(to.size(), [&](std::size_t done) {
    return ::pread(file_.get(), to.data() + done, to.size() - done,
                   static_cast<off_t>(offset + done));
  });
  if (read.error != 0) {
    throw DataError(path_.string(), "cannot read: " + describe_system_error(read.error));
  }
  if (read.bytes < to.size()) {
    throw DataError(path_.string(), "the file became shorter while it was read");
  }
}

}  // namespace trainer
