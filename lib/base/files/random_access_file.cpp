#include "base/files/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/system_error.h"
#include "base/text.h"

namespace trainer {

RandomAccessFile::RandomAccessFile(const Path& path) : path_(path) {
  check_regular_file(path);
  file_ = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file_ || ::fstat(file_.get(), &info) != 0) {
    const int error = errno;
    const std::string message = "cannot open: " + describe_system_error(error);
    // After a DataError a caller may skip the file, which may be undamaged here.
    if (is_open_file_limit(error)) {
      throw Error(kExitData, printable(path.string()), ": ", message);
    }
    throw DataError(path.string(), message);
  }
  size_ = static_cast<std::uint64_t>(info.st_size);
}

void RandomAccessFile::read(std::uint64_t offset, std::span<std::uint8_t> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw DataError(path_.string(), "cannot read: " + describe_system_error(errno));
    }
    if (got == 0) {
      throw DataError(path_.string(), "the file became shorter while it was read");
    }
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(got);
  }
}

}  // namespace trainer
