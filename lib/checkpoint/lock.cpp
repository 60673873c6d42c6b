#include "checkpoint/lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace trainer::checkpoint {
namespace {

constexpr std::size_t kMaxLockBytes = 512;

}  // namespace

// The kernel releases the lock when the process ends in any way. The text in the file is for
// messages only. The file is not removed, because two processes could then lock two files of one
// name.
RunLock::RunLock(const Path& run) {
  const Path path = run / "lock";
  std::error_code error;
  std::filesystem::create_directories(run, error);
  if (error) {
    throw Error(kExitConfig, concat(printable(run.string()), ": cannot create this run folder: ",
                                    error.message(), "; choose another with --run-dir"));
  }
  // The lock must not be a link, because its target would be emptied.
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd_ < 0) {
    throw DataError(path, errno == ELOOP ? "is a link, which is not followed; remove it"
                                         : concat("cannot open: ", std::strerror(errno)));
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    std::array<char, kMaxLockBytes> text{};
    const ssize_t got = ::pread(fd_, text.data(), text.size() - 1, 0);
    ::close(fd_);
    if (code != EWOULDBLOCK) throw DataError(path, concat("cannot lock: ", std::strerror(code)));
    std::string holder(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    if (holder.empty()) holder = "another process";
    throw Error(kExitConfig,
                concat(printable(run.string()), ": the run folder is in use by ", printable(holder),
                       "; wait for it to end, stop it, or choose another folder with --run-dir"));
  }
  const std::string text = concat("process ", ::getpid(), " on ", host_name(), "\n");
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const int code = errno;
    ::close(fd_);
    throw DataError(path, concat("cannot write: ", std::strerror(code)));
  }
}

RunLock::~RunLock() {
  if (::ftruncate(fd_, 0) != 0) {
    // Only the text for messages is left behind.
  }
  ::close(fd_);
}

// Does not try the lock, because holding it for a moment could make the start of a run fail.
bool is_in_use(const Path& run) {
  std::istringstream file;
  try {
    const Bytes text = read_file_start(run / "lock", kMaxLockBytes);
    file.str({text.begin(), text.end()});
  } catch (const DataError&) {
    return false;  // there is none, or it is not a file that a run has written
  }
  std::string process, on, host;
  pid_t pid = 0;
  if (!(file >> process >> pid >> on >> host)) return false;
  return host != host_name() || ::kill(pid, 0) == 0 || errno == EPERM;
}

}  // namespace trainer::checkpoint
