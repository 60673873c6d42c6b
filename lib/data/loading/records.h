// Records of one size that several threads fill and read: in a mapped file, or in memory.
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

// A file holds all checksums, then all records; how many and how large is known to the reader. A
// record that a killed process left half-written does not pass its checksum and counts as missing.
// Several processes may fill one file: each writes the same bytes for a record.
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
  // The record, or null when it is missing. Its checksum is looked at once.
  const std::uint8_t* find(std::int64_t index);
  // Keeps a record, unless it is there.
  void store(std::int64_t index, const std::uint8_t* record);

 private:
  std::mutex& lock_of(std::size_t i) { return locks_[i % locks_.size()]; }
  std::uint64_t* marks() { return static_cast<std::uint64_t*>(memory_); }
  std::uint8_t* record(std::size_t i);
  void map_file();
  bool reserve(int file, std::int64_t taken) const;
  [[noreturn]] void fail() const;

  Path path_;
  std::size_t count_, record_bytes_, bytes_;
  std::string remedy_;
  void* memory_ = nullptr;
  std::vector<std::atomic<bool>> verified_;  // what this process has written or checked
  std::array<std::mutex, 64> locks_;         // guard what is not verified yet
};

}  // namespace trainer::data
