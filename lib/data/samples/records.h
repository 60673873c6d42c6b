// Records of equal size, in a file or in memory, which several threads fill and read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace trainer::data {

// A file holds all checksums, then all records; how many and how large is known to the reader. The
// checksum of a record is verified at each read, so that a record that a killed process left
// half-written, or that anything else has overwritten or cut off, counts as missing. Several
// processes may fill one file: each writes the same bytes for a record.
class Records {
 public:
  // Opens or creates the file and takes the disk space of all records, where the file system can;
  // an empty path keeps the records in memory. Throws DataError when the disk lacks the space:
  // `remedy` says what to do then. A file that was not there before is not there afterwards either.
  Records(const Path& path, std::int64_t count, std::size_t record_bytes, std::string remedy);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  std::size_t record_bytes() const { return record_bytes_; }
  // The file, empty for records in memory.
  const Path& path() const { return path_; }
  // Copies the record to `to`, record_bytes() long. False when it is missing or damaged; `to` is
  // undefined then.
  bool load(std::int64_t index, std::uint8_t* to);
  // Returns whether the record exists and is undamaged. A record that this process has stored or
  // read counts as undamaged.
  bool holds(std::int64_t index);
  // Keeps a record, unless it is there. Throws DataError when the file cannot be written.
  void store(std::int64_t index, const std::uint8_t* record);

 private:
  std::mutex& lock_of(std::size_t i) { return locks_[i % locks_.size()]; }
  std::size_t offset_of(std::size_t i) const {
    return count_ * sizeof(std::uint64_t) + i * record_bytes_;
  }
  void open_file();
  bool reserve(std::int64_t taken) const;
  [[noreturn]] void fail() const;

  Path path_;
  std::size_t count_, record_bytes_, bytes_;
  std::string remedy_;
  int file_ = -1;
  std::uint8_t* memory_ = nullptr;           // without a file
  std::vector<std::atomic<bool>> verified_;  // what this process has stored or read
  std::array<std::mutex, 64> locks_;         // of stores
};

}  // namespace trainer::data
