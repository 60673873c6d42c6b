// Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file.
//
// File: safetensors (https://github.com/huggingface/safetensors): u64 little-endian header length,
// JSON header, raw little-endian tensors. Parameters, statistics and slots are float32 under their
// names; the header's __metadata__ holds "trainer" (format version), "sha256" of the tensor bytes,
// "header_sha256" of the rest of the header, and the State's fields as strings. Readable by the
// safetensors package.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/types.h"

namespace trainer::checkpoint {

struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

// State besides tensors, as text: step counters, best metric, class names, data fingerprint.
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<Tensor> tensors;  // in file order
  Metadata metadata;
};

// Plain safetensors. Reading checks lengths, offsets and, where the file has them, the format
// version and the checksums; accepts F32, F16, BF16 and F64 tensors and converts them to float.
// Throws DataError that names what is wrong. Metadata that is not UTF-8 is written with U+FFFD.
void write_safetensors(const Path& path, const std::vector<Tensor>& tensors,
                       const Metadata& metadata);
TensorFile read_safetensors(const Path& path);
// A safetensors file that has both checksums, as write_safetensors() writes them: what a run is
// resumed from, and what carries a config. Throws DataError for any other.
TensorFile read_checkpoint(const Path& path);

// ---- A run's checkpoints: <run>/checkpoints/step-00000100.safetensors ---------------------------

struct Saved {
  Path path;
  std::int64_t step = 0;
};

class Store {
 public:
  // Keeps the newest `keep` (at least 1) checkpoints, and the best one. Creates the folder and
  // removes temporary files of killed writers, so only the process that holds the run's lock may
  // construct a Store.
  Store(Path folder, std::int64_t keep);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  // Writes a checkpoint. Removes checkpoints of later steps, which a run leaves behind when it is
  // resumed from an earlier one. Throws DataError once the path names another folder than at the
  // start: the run was moved, and what lies there now may be another run's.
  Path save(std::int64_t step, const std::vector<Tensor>& tensors, const Metadata& metadata);
  // Makes best.safetensors a hard link to (or copy of) the checkpoint of `step`, which must exist.
  void mark_best(std::int64_t step);
  Path best_path() const;
  std::vector<Saved> list() const;  // by step, oldest first
  // The newest checkpoint that reads back whole. Damaged ones are skipped, each reported through
  // `warnings`. Empty when there is none.
  std::optional<TensorFile> load_latest(std::vector<std::string>& warnings) const;

 private:
  void check_in_place() const;

  Path folder_;
  std::int64_t keep_;
  int open_folder_ = -1;  // keeps the inode of the folder from being given to another
};

// The checkpoints that a folder holds now, by step, oldest first, for readers that hold no lock. A
// process that trains in the run may remove any of them at any time.
std::vector<Saved> list_checkpoints(const Path& folder);

// Loads a run folder's newest undamaged checkpoint (`best`: its best one), or a checkpoint file.
TensorFile load(const Path& run_or_file, bool best, std::vector<std::string>& warnings);

// The folder of a run's checkpoints, which may be named itself; a file as it is. Throws DataError
// when there is nothing of that name.
Path find_checkpoints(const Path& run);
// Returns the last `count` checkpoints of a run folder, oldest first. Throws DataError when it has
// fewer.
std::vector<Saved> last_checkpoints(const Path& run, std::int64_t count);
// The mean of the parameters, moving statistics and weight averages of checkpoints, in float32,
// without optimizer slots; the metadata is that of the last one. Nothing when a process that trains
// in the run has removed one of them. Throws an Error with kExitData when one is damaged, or when
// they do not have the same tensors.
std::optional<TensorFile> average_checkpoints(const std::vector<Saved>& checkpoints);

// Returns whether a tensor is a slot of another one among `names`: an optimizer's or an average
// ("dense/kernel/m", "dense/kernel/average" of "dense/kernel").
bool is_slot(const std::string& name, const std::set<std::string>& names);

// Returns the SHA-256 over the float32 bytes of the tensors in name order.
std::string sha256_of(const std::vector<Tensor>& tensors);

// Holds <run>/lock (flock) until destroyed. The constructor throws Error with kExitConfig, naming
// the process that holds the lock.
class RunLock {
 public:
  explicit RunLock(const Path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

// Returns whether a process trains in the run folder, by the content of <run>/lock. Does not take
// the lock. Returns true for a process of another machine, which cannot be checked.
bool is_in_use(const Path& run);

}  // namespace trainer::checkpoint
