// Stores records of equal size, in a file or in memory, for several threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/files/descriptor.h"
#include "base/files/files.h"

namespace trainer::data {

// A file contains all checksums, then all records; their number and size are not stored. The
// checksum of a record is verified at each read, so that a record counts as missing if a killed
// process has left it half-written or if it was overwritten or cut off. Several processes may fill
// one file if each writes the same bytes for a record.
class Records {
 public:
  // Opens or creates the file and reserves the disk space of all records if the file system can; an
  // empty path keeps the records in memory. Throws DataError if the disk lacks the space; `remedy`
  // is the advice of this error, and a file that did not exist before is removed.
  Records(const Path& path, std::int64_t count, std::size_t record_bytes, std::string remedy);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  std::size_t record_bytes() const { return record_bytes_; }
  // Returns the file, empty for records in memory.
  const Path& path() const { return path_; }
  // Copies the record to `to`, record_bytes() long. Returns false if it is missing or damaged; the
  // content of `to` is undefined then.
  bool load(std::int64_t index, std::uint8_t* to);
  // Returns whether the record exists and is undamaged. A record that this process has stored or
  // read counts as undamaged.
  bool holds(std::int64_t index);
  // Stores a record unless it exists. Throws DataError if the file cannot be written.
  void store(std::int64_t index, const std::uint8_t* record);

 private:
  std::mutex& find_lock(std::size_t i) { return locks_[i % locks_.size()]; }
  std::size_t record_offset(std::size_t i) const {
    return count_ * sizeof(std::uint64_t) + i * record_bytes_;
  }
  void open_file();
  bool reserve(std::int64_t taken) const;
  [[noreturn]] void fail() const;

  Path path_;
  std::size_t count_, record_bytes_, bytes_;
  std::string remedy_;
  Descriptor file_;
  std::uint8_t* memory_ = nullptr;           // null if there is a file
  std::vector<std::atomic<bool>> verified_;  // records that this process has stored or read
  std::array<std::mutex, 64> locks_;         // used by store(), by index
};

}  // namespace trainer::data
