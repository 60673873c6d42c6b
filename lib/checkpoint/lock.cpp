#include "checkpoint/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/process/process.h"
#include "base/system_error.h"
#include "base/text.h"

namespace trainer::checkpoint {
namespace {

constexpr std::size_t kMaxLockBytes = 512;

// The process that a lock file names.
struct Holder {
  pid_t pid = 0;
  std::string host;
};

std::optional<Holder> parse_holder(const std::string& text) {
  std::istringstream file(text);
  std::string process, on;
  Holder holder;
  if (!(file >> process >> holder.pid >> on >> holder.host)) return std::nullopt;
  return holder;
}

// Returns the name of the program that a process runs, or "" if there is no such process. One that
// has ended and whose parent has not asked for its exit code (a zombie) does not count.
std::string program_name(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");  // "7 (name) S ..."
  std::string text;
  std::getline(file, text);
  const std::size_t begin = text.find('('), end = text.rfind(')');
  if (begin == std::string::npos || end == std::string::npos) return "";
  const bool has_ended = text.compare(end, 3, ") Z") == 0 || text.compare(end, 3, ") X") == 0;
  return has_ended ? "" : text.substr(begin + 1, end - begin - 1);
}

HolderState classify_holder(const std::string& text) {
  const std::optional<Holder> holder = parse_holder(text);
  if (!holder) return HolderState::kNone;
  if (holder->host != host_name()) return HolderState::kOtherHost;
  if (holder->pid == ::getpid()) return HolderState::kThis;
  const bool is_living = program_name(std::to_string(holder->pid)) == program_name("self");
  return is_living ? HolderState::kLiving : HolderState::kGone;
}

// Returns the first line of the open lock file.
std::string read_holder(int fd) {
  std::array<char, kMaxLockBytes> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string holder(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  return holder;
}

// Returns whether the lock on a file keeps other open files of it out. Some file systems grant
// every lock.
bool keeps_others_out(const Path& path) {
  const Descriptor other(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return !other || ::flock(other.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

// The kernel releases the lock when the process ends in any way. The text in the file is for
// messages, and for file systems without locks. The file is not removed, because two processes
// could then lock two files of one name.
RunLock::RunLock(const Path& run) {
  const Path path = run / "lock";
  const std::string name = printable(run.string());
  std::error_code error;
  std::filesystem::create_directories(run, error);
  if (error) {
    throw DataError(run, "cannot create this run folder: ", describe_system_error(error.value()),
                    "; check its permissions, the disk and its free space, or choose another "
                    "folder with --run-dir");
  }
  // The lock must not be a link, because its target would be emptied.
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file_) {
    throw DataError(path, errno == ELOOP ? "is a link, which is not followed; remove it"
                                         : concat("cannot open: ", describe_system_error(errno)));
  }
  const int code = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  const bool lacks_locks = code == 0 ? !keeps_others_out(path) : is_unsupported(code);
  if (code != 0 || lacks_locks) {
    std::string holder = read_holder(file_.get());
    // A process of another host does not count: it may have been killed.
    if (code == EWOULDBLOCK || (lacks_locks && classify_holder(holder) == HolderState::kLiving)) {
      if (holder.empty()) holder = "another process";
      const std::string remedy = lacks_locks
                                     ? concat("; if that process does not use this folder, remove ",
                                              printable(path.string()))
                                     : "";
      throw Error(kExitConfig, name, ": the run folder is in use by ", printable(holder),
                  "; wait for it to end, stop it, or choose another folder with --run-dir", remedy);
    }
    if (!lacks_locks) throw DataError(path, "cannot lock: " + describe_system_error(code));
    warning_ = concat(name, ": this file system has no file locks (",
                      code == 0 ? "it grants every lock" : describe_system_error(code),
                      "), so that processes on two machines could write this folder at the same "
                      "time; start one at a time, or choose a folder on another file system with "
                      "--run-dir");
  }
  const std::string text = concat("process ", ::getpid(), " on ", host_name(), "\n");
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw DataError(path, "cannot write: " + describe_system_error(errno));
  }
}

RunLock::~RunLock() {
  if (::ftruncate(file_.get(), 0) != 0) {
    // Only the text for messages is left behind.
  }
}

// Does not try the lock, because holding it for a moment could make the start of a run fail.
HolderState find_holder_state(const Path& run) {
  try {
    const Bytes bytes = read_file_start(run / "lock", kMaxLockBytes);
    return classify_holder({bytes.begin(), bytes.end()});
  } catch (const DataError&) {
    return HolderState::kNone;  // there is none, or it is not a file that a run has written
  }
}

bool is_in_use(const Path& run) {
  const HolderState state = find_holder_state(run);
  return state != HolderState::kNone && state != HolderState::kGone;
}

}  // namespace trainer::checkpoint
