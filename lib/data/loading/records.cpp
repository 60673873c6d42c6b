#include "data/loading/records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace trainer::data {
namespace {

// Never 0, which marks a record that is not there.
std::uint64_t mark_of(std::span<const std::uint8_t> bytes) {
  return std::uint64_t{crc32c(bytes)} | std::uint64_t{1} << 32;
}

}  // namespace

Records::Records(const Path& path, std::int64_t count, std::size_t record_bytes, std::string remedy)
    : path_(path),
      count_(static_cast<std::size_t>(count)),
      record_bytes_(record_bytes),
      bytes_(count_ * (sizeof(std::uint64_t) + record_bytes)),
      remedy_(std::move(remedy)),
      verified_(count_) {
  if (path_.empty()) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    map_file();
  }
  if (memory_ == MAP_FAILED) fail();
}

Records::~Records() { ::munmap(memory_, bytes_); }

void Records::map_file() {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) throw DataError(path_.parent_path().string(), "cannot be created: " + error.message());
  const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) fail();
  struct stat status {};
  const bool sized = ::fstat(file, &status) == 0 && reserve(file, status.st_blocks * 512) &&
                     (static_cast<std::size_t>(status.st_size) == bytes_ ||
                      ::ftruncate(file, static_cast<off_t>(bytes_)) == 0);
  const int reason = errno;
  // What was reserved in part is of no use to anyone.
  if (!sized && status.st_size == 0) ::unlink(path_.c_str());
  memory_ =
      sized ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int failure = sized ? errno : reason;
  ::close(file);
  errno = failure;
}

const std::uint8_t* Records::find(std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  if (!verified_[i].load(std::memory_order_acquire)) {
    const std::lock_guard lock(lock_of(i));
    if (marks()[i] == 0 || marks()[i] != mark_of({record(i), record_bytes_})) return nullptr;
    verified_[i].store(true, std::memory_order_release);
  }
  return record(i);
}

// Two batches at the border of two epochs may hold the same sample: the first to come writes it.
void Records::store(std::int64_t index, const std::uint8_t* from) {
  const auto i = static_cast<std::size_t>(index);
  const std::lock_guard lock(lock_of(i));
  if (verified_[i].load(std::memory_order_relaxed)) return;
  std::memcpy(record(i), from, record_bytes_);
  marks()[i] = mark_of({from, record_bytes_});
  verified_[i].store(true, std::memory_order_release);
}

std::uint8_t* Records::record(std::size_t i) {
  return static_cast<std::uint8_t*>(memory_) + count_ * sizeof(std::uint64_t) + i * record_bytes_;
}

// Writing to a mapped file on a full disk ends the process: better to refuse beforehand. Where the
// file system cannot reserve, the space that is free now must do; posix_fallocate() would write
// every block there. The records that a file holds already stay as they are.
bool Records::reserve(int file, std::int64_t taken) const {
  if (taken >= static_cast<std::int64_t>(bytes_)) return true;  // reserved before
  std::error_code error;
  const auto space = std::filesystem::space(path_.parent_path(), error);
  if (!error && space.available + static_cast<std::uintmax_t>(taken) < bytes_) {
    errno = ENOSPC;
    return false;
  }
  while (::fallocate(file, 0, 0, static_cast<off_t>(bytes_)) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return true;
    if (errno != EINTR) return false;
  }
  return true;
}

void Records::fail() const {
  throw DataError(
      path_.empty() ? "memory" : path_.string(),
      concat(std::strerror(errno), " (", bytes_ >> 20, " MiB are needed; ", remedy_, ")"));
}

}  // namespace trainer::data
