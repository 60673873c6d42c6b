#include "train/features/feature_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace trainer::train {

bool FeatureLock::try_lock() {
  if (is_held_) return true;
  // Some network file systems lock only files that are open for writing.
  if (fd_ < 0) fd_ = ::open(file_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0 &&
      (errno == EWOULDBLOCK || errno == EINTR)) {
    return false;
  }
  is_held_ = true;
  return true;
}

void FeatureLock::unlock() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  is_held_ = false;
}

}  // namespace trainer::train
