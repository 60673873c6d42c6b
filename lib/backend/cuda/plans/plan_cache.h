// cuDNN's execution plans on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/files.h"

namespace trainer::backend::cuda {

struct StoredPlan {
  bool fused = false;  // whether the graph holds the bias and relu too
  bool tensor_cores = false;
  std::int64_t engine = 0;
  std::string json;  // as cuDNN writes and reads it
};

// One file a plan, named after the SHA-256 of its key, a text that names all that the plan depends
// on. Processes may share a folder.
class PlanCache {
 public:
  // An empty path is a cache that is always empty.
  explicit PlanCache(Path folder) : folder_(std::move(folder)) {}

  bool enabled() const { return !folder_.empty(); }
  // The plan stored under the key; none when there is none or its file is damaged.
  std::optional<StoredPlan> load(const std::string& key) const;
  // Throws DataError when the file cannot be written.
  void store(const std::string& key, const StoredPlan& plan) const;

 private:
  Path file_of(const std::string& key) const;

  Path folder_;
};

}  // namespace trainer::backend::cuda
