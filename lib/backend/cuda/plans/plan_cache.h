// What was planned for a device, on disk.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/files.h"

namespace trainer::backend::cuda {

// Gets a sentence for the user, without its full stop.
using Warn = std::function<void(const std::string&)>;

// One file a plan, named after the SHA-256 of its key, a text that names all that the plan depends
// on. Processes may share a folder.
class PlanCache {
 public:
  // An empty path is a cache that is always empty.
  explicit PlanCache(Path folder, Warn warn = {})
      : folder_(std::move(folder)), warn_(std::move(warn)) {}

  bool enabled() const { return !folder_.empty(); }
  // The plan stored under the key. None when there is none, or, with a warning, when its file is
  // damaged, or is another program's or another key's.
  std::optional<std::string> load(const std::string& key) const;
  // Throws DataError when the file cannot be written.
  void store(const std::string& key, const std::string& plan) const;
  // Tells that a plan that load() returned cannot be used.
  void reject(const std::string& key, const std::string& why) const;

 private:
  Path make_path(const std::string& key) const;

  Path folder_;
  Warn warn_;
};

}  // namespace trainer::backend::cuda
