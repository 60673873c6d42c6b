// The checkpoints of a run: <run>/checkpoints/step-00000100.safetensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/descriptor.h"
#include "base/files/files.h"
#include "base/process/progress.h"
#include "checkpoint/tensor_file.h"

namespace trainer::checkpoint {

struct Saved {
  Path path;
  std::int64_t step = 0;
};

class Store {
 public:
  // Keeps the newest `keep` (at least 1) checkpoints, and the best one. Creates the folder and
  // removes temporary files of killed writers, so only the process that holds the run's lock may
  // construct a Store. `progress` advances while a checkpoint is written.
  Store(Path folder, std::int64_t keep, Progress progress = {});
  // Writes a checkpoint. Removes checkpoints of later steps, which a run leaves behind when it is
  // resumed from an earlier one. Throws DataError once the path names another folder than at the
  // start: the run was moved, and what lies there now may be another run's.
  Path save(std::int64_t step, const std::vector<Tensor>& tensors, const Metadata& metadata);
  // Makes best.safetensors a hard link to, or a copy of, the checkpoint of `step`, which must
  // exist.
  void mark_best(std::int64_t step);
  Path best_path() const;
  std::vector<Saved> list() const;  // sorted by step, oldest first
  // Returns the newest undamaged checkpoint, or nothing if there is none. Adds a line to `warnings`
  // for each damaged one.
  std::optional<TensorFile> load_latest(std::vector<std::string>& warnings) const;

 private:
  void check_in_place() const;

  Path folder_;
  std::int64_t keep_;
  Progress progress_;
  Descriptor open_folder_;  // keeps the inode of the folder from being given to another
};

// Returns the checkpoints in a folder, by step, oldest first, for readers without the lock. A
// process that trains in the run may remove any of them at any time.
std::vector<Saved> list_checkpoints(const Path& folder);

// Load the best checkpoint of a run folder, and the newest undamaged one, with a warning for each
// damaged one; a path of a checkpoint file loads this file. Throw DataError where there is none.
TensorFile load_best(const Path& run_or_file);
TensorFile load_last(const Path& run_or_file, std::vector<std::string>& warnings);

// Returns the best checkpoint of a run folder, or else its newest one; returns other paths
// unchanged. Throws DataError for a run folder without a checkpoint.
Path find_weight_file(const Path& run_or_file);

// Returns the folder of a run's checkpoints, which may be given itself, and returns a file
// unchanged. Throws DataError if the path does not exist.
Path find_checkpoints(const Path& run);

}  // namespace trainer::checkpoint
