#include "base/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/files/sync.h"
#include "base/system_error.h"
#include "base/text.h"

namespace trainer {
namespace {

// Writes `text` and removes the written part from it. Returns 0 or the error number.
int write_pending(int fd, std::string& text) {
  const Moved written = move_all(text.size(), [&](std::size_t done) {
    return ::write(fd, text.data() + done, text.size() - done);
  });
  text.erase(0, written.bytes);
  return written.error;
}

}  // namespace

AppendFile::AppendFile(const Path& path) : path_(path) { open(); }

AppendFile::~AppendFile() {
  if (file_) static_cast<void>(write_pending(file_.get(), pending_));
}

void AppendFile::open() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  file_ = Descriptor(::open(path_.c_str(), kFlags, 0644));
  if (!file_) {
    const int error = errno;
    if (error == ELOOP) {
      throw DataError(printable(path_.string()), "is a link, which is not followed; remove it");
    }
    const bool is_moved = error == ENOENT || error == ENOTDIR;
    throw DataError(printable(path_.string()), "cannot open: ", describe_system_error(error),
                    is_moved ? "; was its folder moved or removed?" : "");
  }
  struct stat info {};
  has_content_ = ::fstat(file_.get(), &info) == 0 && info.st_size > 0;
}

void AppendFile::flush() {
  if (pending_.empty()) return;
  if (const int error = write_pending(file_.get(), pending_); error != 0) {
    pending_.clear();
    throw DataError(printable(path_.string()), "cannot write: ", describe_system_error(error));
  }
  has_content_ = true;
}

void AppendFile::sync() {
  flush();
  if (const int error = sync_descriptor(file_.get()); error != 0) {
    throw DataError(printable(path_.string()),
                    "cannot sync to the disk: ", describe_system_error(error));
  }
}

bool AppendFile::is_in_place() const {
  struct stat held {
  }, named{};
  if (::fstat(file_.get(), &held) != 0 || ::stat(path_.c_str(), &named) != 0) return false;
  if (held.st_dev != named.st_dev || held.st_ino != named.st_ino) return false;
  return !S_ISREG(held.st_mode) || !has_content_ || held.st_size > 0;
}

void AppendFile::reopen(std::string_view head) {
  file_ = {};
  open();
  if (!has_content_) pending_.insert(0, head);
}

}  // namespace trainer
