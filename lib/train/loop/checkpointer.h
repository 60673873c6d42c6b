// The checkpoints of a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "hooks/hooks.h"

namespace trainer::train {

struct RunContext;

class Checkpointer {
 public:
  // The chief opens the store of the run folder. `context` must outlive it.
  explicit Checkpointer(RunContext& context);

  // Returns the newest checkpoint that can be read; nothing if there is none yet. Warns of damaged
  // ones. Throws DataError if all are damaged. Chief only.
  std::optional<checkpoint::TensorFile> load_latest();
  // Marks the run's state as that of the newest checkpoint.
  void set_resumed();
  // Writes a checkpoint of the run's state and notifies the hooks. No-op if nothing changed
  // since the last one. Throws CheckError if a variable is not finite, or not the same on all
  // ranks: such variables never replace a good checkpoint. Collective.
  void save();
  // Marks the newest checkpoint as the best so far.
  void mark_best();
  // Sets parameters, statistics and averages to those of the best checkpoint, on all ranks; slots
  // stay. Returns false if the run's state is the best. Collective.
  bool restore_best();
  // Returns the best checkpoint so far. Chief only.
  std::optional<results::BestCheckpoint> best() const;
  // Returns the path of the last checkpoint for messages, or "none"; on other ranks than the chief,
  // "rank 0's of step N".
  std::string last_checkpoint() const;

 private:
  void check_finite(const std::vector<checkpoint::Tensor>& tensors) const;

  RunContext& context_;
  std::optional<checkpoint::Store> store_;  // empty on other ranks than the chief
  checkpoint::Metadata saved_;              // metadata of the last checkpoint
};

}  // namespace trainer::train
