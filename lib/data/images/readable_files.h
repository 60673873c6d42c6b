// Which image files were found readable, kept from start to start: `on_error: skip` then decodes
// only new and changed files before the first batch.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/files.h"
#include "config/config.h"

namespace trainer::data {

// What a file was when it was looked at: its absolute path, size and time of change, hashed.
using FileState = std::array<std::uint8_t, 16>;

// A file of such states with a checksum. One that is damaged, or is none of ours, counts as absent;
// what cannot be written is not kept: nothing but time depends on it. Damaged image files are not
// kept either, so that they are looked at again at every start.
class ReadableFiles {
 public:
  // Reads what earlier starts have left in `folder` for the same `settings`: all that decides
  // beside its content whether a file can be read. With kReadOnly, save() and forget() do nothing.
  ReadableFiles(const Path& folder, const std::string& settings,
                config::FolderAccess access = config::FolderAccess::kReadWrite);

  // Of the file as it is now. Nothing when it is missing, or was changed so shortly ago that
  // another change might leave the same time.
  std::optional<FileState> state_of(const std::string& path) const;
  bool contains(const FileState& state) const { return states_.contains(state); }
  // From any thread.
  void add(const FileState& state);

  // Writes the file when states were added.
  void save() const noexcept;
  // Removes it: a file of it could not be read after all.
  void forget() const noexcept;

 private:
  Path path_;
  config::FolderAccess access_;
  std::filesystem::file_time_type opened_;
  std::set<FileState> states_, added_;
  std::mutex mutex_;  // of added_
};

}  // namespace trainer::data
