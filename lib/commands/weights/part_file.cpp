#include "commands/weights/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/system_error.h"

namespace trainer::commands {

std::string hash_file(int descriptor, const Path& path, Digest::Algorithm algorithm) {
  constexpr std::size_t kReadBytes = 1 << 20;
  Digest digest(algorithm);
  Bytes block(kReadBytes);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(descriptor, block.data(), block.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw DataError(path.string(), "cannot read: " + describe_system_error(errno));
    }
    if (count == 0) return digest.hex();
    digest.update(std::span(block).first(count));
    offset += count;
  }
}

PartFile::PartFile(const Path& file)
    : path_(file.parent_path() / concat(".", file.filename().string(), ".part")) {
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == ELOOP) {
      throw DataError(path_.string(),
                      "is a link, through which a download is not written; remove it");
    }
    if (descriptor_ < 0) {
      throw DataError(path_.string(), concat("cannot be written: ", describe_system_error(errno),
                                             "; name a folder that can be written in the "
                                             "environment variable WEIGHTS_DIR"));
    }
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && !is_unsupported(errno)) {
      const int code = errno;
      ::close(descriptor_);
      throw DataError(path_.string(),
                      code == EWOULDBLOCK
                          ? "another process downloads this file; wait until it has finished"
                          : "cannot lock: " + describe_system_error(code));
    }
    // The process that held the lock may have renamed or removed the file.
    struct stat opened = {}, named = {};
    if (::fstat(descriptor_, &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
      return;
    }
    ::close(descriptor_);
  }
}

PartFile::~PartFile() { ::close(descriptor_); }

std::int64_t PartFile::bytes() const {
  struct stat status = {};
  return ::fstat(descriptor_, &status) == 0 ? status.st_size : 0;
}

std::string PartFile::start(std::size_t count) const {
  std::string text(count, '\0');
  const ssize_t found = ::pread(descriptor_, text.data(), count, 0);
  text.resize(std::max<ssize_t>(0, found));
  return text;
}

std::string PartFile::digest(Digest::Algorithm algorithm) const {
  return hash_file(descriptor_, path_, algorithm);
}

int PartFile::append(const char* data, std::size_t count) {
  ::lseek(descriptor_, 0, SEEK_END);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, data, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    data += written;
    count -= static_cast<std::size_t>(written);
  }
  return 0;
}

void PartFile::clear() {
  if (::ftruncate(descriptor_, 0) != 0) {
    throw DataError(path_.string(), "cannot be emptied: " + describe_system_error(errno));
  }
}

void PartFile::remove() { ::unlink(path_.c_str()); }

void PartFile::publish(const Path& file) {
  sync_path(path_);
  std::filesystem::rename(path_, file);
  sync_path(file.parent_path());
}

}  // namespace trainer::commands
