// Chooses the batch size for the memory of a device.
#pragma once

#include <cstdint>
#include <string>

#include "backend/open.h"
#include "base/notice.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::train {

struct ChosenBatchSize {
  std::int64_t samples = 0;  // per replica
  std::string memory;        // what they take of what, and what else limits them
};
// Returns the largest batch that fits the memory of each replica's device, and whose tensors its
// libraries take, at most 1024 and the replica's share of `samples`, if that is not 0. The bound is
// train.memory_mb, else 90 % of what a GPU has free once it has trained on one sample, or half of
// the memory that is free for the CPU. `model` comes from model::build_model(). Throws ConfigError
// if not even one sample fits.
ChosenBatchSize choose_batch_size(config::Config config, const backend::Platform& platform,
                                  const graph::Graph& model, std::int64_t samples);
// Resolves train.batch_size: auto by choose_batch_size(), and returns a note with the choice; for
// other configs returns an empty notice.
Notice resolve_batch_size(config::Config& config, const backend::Platform& platform,
                          const graph::Graph& model, std::int64_t samples);

}  // namespace trainer::train
