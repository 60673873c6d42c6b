// Records the image files that were found readable, so that a later start with `on_error: skip`
// decodes only new and changed files before the first batch.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/files/files.h"
#include "config/sections/data.h"

namespace trainer::data {

// A hash of the absolute path, size and time of change of a file.
using FileState = std::array<std::uint8_t, 16>;

// A file of such states with a checksum. Only the time of a start depends on it: a damaged or
// foreign file counts as absent, and a failure to write is ignored. Damaged image files are not
// recorded, so that every start reads them again.
class ReadableFiles {
 public:
  // Reads the record of earlier starts with the same `settings` from `folder`. The settings are
  // everything besides the content of a file that decides whether it can be read. With kReadOnly,
  // save() and forget() do nothing.
  ReadableFiles(const Path& folder, const std::string& settings,
                config::FolderAccess access = config::FolderAccess::kReadWrite);

  // Returns the state of a file now; nullopt if it is missing, or was changed so recently that
  // another change could leave the same time.
  std::optional<FileState> find_state(const std::string& path) const;
  bool contains(const FileState& state) const { return states_.contains(state); }
  // Thread-safe.
  void add(const FileState& state);

  // Writes the file if states were added.
  void save() const noexcept;
  // Removes the file, because an image file in it could not be read.
  void forget() const noexcept;

 private:
  Path path_;
  config::FolderAccess access_;
  std::filesystem::file_time_type opened_;
  std::set<FileState> states_, added_;
  std::mutex mutex_;  // guards added_
};

}  // namespace trainer::data
