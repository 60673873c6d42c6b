#include "data/samples/records.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/system_error.h"

namespace trainer::data {
namespace {

// Returns the checksum of a record; never 0, which marks a missing record.
std::uint64_t make_mark(std::span<const std::uint8_t> bytes) {
  return std::uint64_t{crc32c(bytes)} | std::uint64_t{1} << 32;
}

// Reads, as an access to a mapping of a file that was cut meanwhile would end the process.
bool read_at(int file, std::size_t offset, void* to, std::size_t count) {
  const Moved read = move_all(count, [&](std::size_t done) {
    return ::pread(file, static_cast<char*>(to) + done, count - done,
                   static_cast<off_t>(offset + done));
  });
  return read.bytes == count;
}

bool write_at(int file, std::size_t offset, const void* from, std::size_t count) {
  const Moved written = move_all(count, [&](std::size_t done) {
    return ::pwrite(file, static_cast<const char*>(from) + done, count - done,
                    static_cast<off_t>(offset + done));
  });
  return written.bytes == count;
}

}  // namespace

Records::Records(const Path& path, std::int64_t count, std::size_t record_bytes, std::string remedy)
    : path_(path),
      count_(count),
      record_bytes_(record_bytes),
      bytes_(count_ * (sizeof(std::uint64_t) + record_bytes)),
      remedy_(std::move(remedy)),
      verified_(count_) {
  if (!path_.empty()) {
    open_file();
    return;
  }
  void* memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail();
  memory_ = static_cast<std::uint8_t*>(memory);
}

Records::~Records() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

void Records::open_file() {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  if (error) throw DataError(path_.parent_path().string(), "cannot be created: " + error.message());
  file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file_) fail();
  struct stat status {};
  if (::fstat(file_.get(), &status) == 0 && reserve(status.st_blocks * 512) &&
      (static_cast<std::size_t>(status.st_size) == bytes_ ||
       ::ftruncate(file_.get(), static_cast<off_t>(bytes_)) == 0)) {
    return;
  }
  const int reason = errno;
  // A part of the space is of no use.
  if (status.st_size == 0) ::unlink(path_.c_str());
  errno = reason;
  fail();
}

bool Records::load(std::int64_t index, std::uint8_t* to) {
  const std::size_t i = index;
  if (memory_ != nullptr) {
    if (!verified_[i].load(std::memory_order_acquire)) return false;
    std::memcpy(to, memory_ + record_offset(i), record_bytes_);
    return true;
  }
  std::uint64_t mark = 0;
  // Verifies the copy, because the file may change in between.
  const bool is_whole = read_at(file_.get(), i * sizeof mark, &mark, sizeof mark) && mark != 0 &&
                        read_at(file_.get(), record_offset(i), to, record_bytes_) &&
                        mark == make_mark({to, record_bytes_});
  verified_[i].store(is_whole, std::memory_order_release);
  return is_whole;
}

bool Records::holds(std::int64_t index) {
  if (verified_[index].load(std::memory_order_acquire)) return true;
  thread_local std::vector<std::uint8_t> record;
  record.resize(record_bytes_);
  return load(index, record.data());
}

// Two batches at the border of two epochs may contain the same sample: the first one writes it.
void Records::store(std::int64_t index, const std::uint8_t* from) {
  const std::size_t i = index;
  const std::lock_guard lock(find_lock(i));
  if (verified_[i].load(std::memory_order_relaxed)) return;
  if (memory_ != nullptr) {
    std::memcpy(memory_ + record_offset(i), from, record_bytes_);
  } else {
    const std::uint64_t mark = make_mark({from, record_bytes_});
    if (!write_at(file_.get(), record_offset(i), from, record_bytes_) ||
        !write_at(file_.get(), i * sizeof mark, &mark, sizeof mark)) {
      fail();
    }
  }
  verified_[i].store(true, std::memory_order_release);
}

// Checks the free space first, because a disk that fills up later would end the run. If the file
// system cannot reserve space, the free space must suffice, as posix_fallocate() would write every
// block. The records that the file contains already are kept.
bool Records::reserve(std::int64_t taken) const {
  if (taken >= static_cast<std::int64_t>(bytes_)) return true;  // reserved before
  std::error_code error;
  const auto space = std::filesystem::space(path_.parent_path(), error);
  if (!error && space.available + static_cast<std::uintmax_t>(taken) < bytes_) {
    errno = ENOSPC;
    return false;
  }
  while (::fallocate(file_.get(), 0, 0, static_cast<off_t>(bytes_)) != 0) {
    if (errno == EOPNOTSUPP || errno == ENOSYS) return true;
    if (errno != EINTR) return false;
  }
  return true;
}

void Records::fail() const {
  const int error = errno;
  const bool lacks_space = error == ENOSPC || error == EDQUOT || error == ENOMEM || error == EFBIG;
  throw DataError(path_.empty() ? "memory" : path_.string(), describe_system_error(error), " (",
                  lacks_space ? concat(bytes_ >> 20, " MiB are needed; ") : "", remedy_, ")");
}

}  // namespace trainer::data
