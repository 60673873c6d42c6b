// Finds the image files that cannot be read, and records those that can be, so that a later start
// with `on_error: skip` decodes only new and changed files before the first batch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "base/process/progress.h"
#include "config/sections/data.h"
#include "data/images/image_reader.h"
#include "data/images/listing/image_list.h"

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

// Decodes the files of a list to find the damaged ones. Readable files are recorded in `cache_dir`
// if `access` allows it, so that the next start need not decode them again. `progress` advances
// with the files.
class DamageScan {
 public:
  DamageScan(std::shared_ptr<const ImageList> list, const ImageReader& reader,
             ImageReader::Scale scale, const Path& cache_dir, config::FolderAccess access,
             Progress progress);

  // Returns the reason why each of these files cannot be read, "" if it can. Uses all cores.
  std::vector<std::string> find(const std::vector<std::int64_t>& indices);
  // Removes the record, because a file in it turned out to be unreadable. Thread-safe.
  void forget() const noexcept;

 private:
  std::shared_ptr<const ImageList> list_;
  ImageReader reader_;
  ImageReader::Scale scale_;
  Path cache_dir_;
  config::FolderAccess access_;
  Progress progress_;
  std::unique_ptr<ReadableFiles> readable_;  // null before the first find()
};

}  // namespace trainer::data
