// A layer between a program and the C library that makes one call on one folder's files fail, for
// scripts/campaign/faults.py.
//
//   FAULT_FOLDER  calls on files below it are counted, others are left alone
//   FAULT_AT      the number of the call that fails, from 1; 0 for none
//   FAULT_KIND    eio, enospc, short (half of a write), kill (before the call), killed (after it)
//   FAULT_COUNT   a file that is given a line a call: its number and what it was
//   FAULT_SHADOW  a folder that is given what a loss of power would leave: of every synced file
//                 data.INODE, its content then, and of every synced folder list.INODE, a line an
//                 entry: d or f, inode, name. It must lie on the disk of FAULT_FOLDER.
//   FAULT_CLOCK   seconds by which the clock of the day jumps forth and back with every look at it
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_watched(const char* path) {
  static const std::string folder = setting("FAULT_FOLDER");
  return !folder.empty() && std::strncmp(path, folder.c_str(), folder.size()) == 0;
}

bool is_watched(int file) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return is_watched(path);
}

enum class Fault { kNone, kError, kShort, kKillAfter };

// What is to become of this call; errno is set for an error.
Fault next(const char* call) {
  static std::atomic<long> calls{0};
  static const long at = std::atol(setting("FAULT_AT"));
  static const std::string kind = setting("FAULT_KIND");
  static const int log = [] {
    const char* path = setting("FAULT_COUNT");
    using Open = int (*)(const char*, int, ...);
    return *path == '\0'
               ? -1
               : real<Open>("open")(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }();
  const long number = ++calls;
  if (log >= 0) ::dprintf(log, "%ld %s\n", number, call);
  if (number != at) return Fault::kNone;
  if (kind == "kill") ::raise(SIGKILL);
  if (kind == "killed") return Fault::kKillAfter;
  if (kind == "short") return Fault::kShort;
  errno = kind == "enospc" ? ENOSPC : EIO;
  return Fault::kError;
}

void copy_content(int from, const std::string& to) {
  const std::string part = to + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  char block[1 << 16];
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(from, block, sizeof block, at)) > 0; at += got) {
    if (::write(file, block, static_cast<std::size_t>(got)) != got) break;
  }
  ::close(file);
  ::rename(part.c_str(), to.c_str());
}

// Of a descriptor that was just synced. The file is held by another name, so that no new one is
// given its inode.
void record_synced(int synced) {
  static const std::string shadow = setting("FAULT_SHADOW");
  struct stat info {};
  if (shadow.empty() || ::fstat(synced, &info) != 0) return;
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", synced);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  const std::string inode = std::to_string(info.st_ino);
  if (S_ISDIR(info.st_mode)) {
    std::string lines;
    DIR* folder = ::opendir(path);
    if (folder == nullptr) return;
    while (const dirent* entry = ::readdir(folder)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      lines += (entry->d_type == DT_DIR ? "d " : "f ") + std::to_string(entry->d_ino) + " " + name +
               "\n";
    }
    ::closedir(folder);
    const std::string to = shadow + "/list." + inode, part = to + ".part";
    const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (::write(file, lines.data(), lines.size()) < 0) return;
    ::close(file);
    ::rename(part.c_str(), to.c_str());
  } else if (S_ISREG(info.st_mode)) {
    real<int (*)(const char*, const char*)>("link")(path, (shadow + "/hold." + inode).c_str());
    const int from = ::open(path, O_RDONLY | O_CLOEXEC);
    copy_content(from, shadow + "/data." + inode);
    ::close(from);
  }
}

template <class Result>
Result done(Fault fault, Result result) {
  if (fault == Fault::kKillAfter) ::raise(SIGKILL);
  return result;
}

std::size_t part_of(Fault fault, std::size_t bytes) {
  return fault == Fault::kShort && bytes > 1 ? bytes / 2 : bytes;
}

int open_as(const char* name, int folder, const char* path, int flags, mode_t mode) {
  const bool counts = (flags & O_CREAT) != 0 && is_watched(path);
  const Fault fault = counts ? next("open") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  if (std::strncmp(name, "openat", 6) == 0) {
    return done(fault,
                real<int (*)(int, const char*, int, mode_t)>(name)(folder, path, flags, mode));
  }
  return done(fault, real<int (*)(const char*, int, mode_t)>(name)(path, flags, mode));
}

}  // namespace

#define TAKE_MODE                           \
  va_list list;                             \
  va_start(list, flags);                    \
  const mode_t mode = va_arg(list, mode_t); \
  va_end(list)

extern "C" {

int open(const char* path, int flags, ...) {
  TAKE_MODE;
  return open_as("open", 0, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  TAKE_MODE;
  return open_as("open64", 0, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  TAKE_MODE;
  return open_as("openat", folder, path, flags, mode);
}

ssize_t write(int file, const void* data, size_t bytes) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t)>("write");
  const Fault fault = is_watched(file) ? next("write") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, call(file, data, part_of(fault, bytes)));
}
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t at) {
  static const auto call = real<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  const Fault fault = is_watched(file) ? next("pwrite") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, call(file, data, part_of(fault, bytes), at));
}
ssize_t writev(int file, const iovec* parts, int count) {
  static const auto call = real<ssize_t (*)(int, const iovec*, int)>("writev");
  const Fault fault = is_watched(file) ? next("writev") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, call(file, parts, fault == Fault::kShort ? 1 : count));
}
int fsync(int file) {
  const Fault fault = is_watched(file) ? next("fsync") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  const bool is_ours = is_watched(file);
  const int result = real<int (*)(int)>("fsync")(file);
  if (is_ours && result == 0) record_synced(file);
  return done(fault, result);
}
int fdatasync(int file) {
  const Fault fault = is_watched(file) ? next("fdatasync") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  const bool is_ours = is_watched(file);
  const int result = real<int (*)(int)>("fdatasync")(file);
  if (is_ours && result == 0) record_synced(file);
  return done(fault, result);
}
int rename(const char* from, const char* to) {
  const Fault fault = is_watched(to) ? next("rename") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(const char*, const char*)>("rename")(from, to));
}
int link(const char* from, const char* to) {
  const Fault fault = is_watched(to) ? next("link") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(const char*, const char*)>("link")(from, to));
}
int unlink(const char* path) {
  const Fault fault = is_watched(path) ? next("unlink") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(const char*)>("unlink")(path));
}
int remove(const char* path) {
  const Fault fault = is_watched(path) ? next("remove") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(const char*)>("remove")(path));
}
int ftruncate64(int file, off64_t bytes) {
  const Fault fault = is_watched(file) ? next("ftruncate") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(int, off64_t)>("ftruncate64")(file, bytes));
}
int ftruncate(int file, off_t bytes) { return ftruncate64(file, bytes); }
int posix_fallocate64(int file, off64_t at, off64_t bytes) {
  const Fault fault = is_watched(file) ? next("fallocate") : Fault::kNone;
  if (fault == Fault::kError) return errno;  // this one's errors are what it returns
  return done(fault, real<int (*)(int, off64_t, off64_t)>("posix_fallocate64")(file, at, bytes));
}
int posix_fallocate(int file, off_t at, off_t bytes) { return posix_fallocate64(file, at, bytes); }
int mkdir(const char* path, mode_t mode) {
  const Fault fault = is_watched(path) ? next("mkdir") : Fault::kNone;
  if (fault == Fault::kError) return -1;
  return done(fault, real<int (*)(const char*, mode_t)>("mkdir")(path, mode));
}

int clock_gettime(clockid_t clock, timespec* time) {
  static const auto call = real<int (*)(clockid_t, timespec*)>("clock_gettime");
  static const long jump = std::atol(setting("FAULT_CLOCK"));
  static std::atomic<long> looks{0};
  const int result = call(clock, time);
  if (jump != 0 && clock == CLOCK_REALTIME) time->tv_sec += ++looks % 2 == 0 ? jump : -jump;
  return result;
}

}  // extern "C"
