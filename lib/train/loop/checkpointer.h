// The checkpoints of a run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "hooks/hooks.h"

namespace trainer::train {

struct RunContext;

class Checkpointer {
 public:
  // The chief opens the store of the run folder. `context` must outlive it.
  explicit Checkpointer(RunContext& context);

  // The chief's newest checkpoint that can be read; nothing when there is none yet. Warns of
  // damaged ones. Throws DataError when all are damaged.
  std::optional<checkpoint::TensorFile> load_latest();
  // The run's state is that of the newest checkpoint.
  void set_resumed();
  // Writes a checkpoint of the run's state and notifies the hooks. No-op if nothing changed
  // since the last one. Throws CheckError when a variable is not finite, or not the same on all
  // ranks: such variables never replace a good checkpoint. Collective.
  void save();
  // The newest checkpoint is the best so far.
  void mark_best();
  // Sets parameters, statistics and averages to those of the best checkpoint, on all ranks; slots
  // stay. False when there is no better one than the run's state. Collective.
  bool restore_best();
  // The chief's best so far.
  std::optional<hooks::Finish::Best> best() const;
  // For messages: its path, "none", or what other ranks know of it.
  std::string last_checkpoint() const;

 private:
  void check_finite(const std::vector<checkpoint::Tensor>& tensors) const;

  RunContext& context_;
  std::optional<checkpoint::Store> store_;  // the chief's
  checkpoint::Metadata saved_;              // of the last checkpoint
};

}  // namespace trainer::train
