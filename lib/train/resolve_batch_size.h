// Chooses the batch size for the memory of a device.
#pragma once

#include <cstdint>

#include "backend/open.h"
#include "base/notice.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::train {

// Resolves train.batch_size: auto. Sets it to the largest batch that fits the memory of each
// replica's device, and whose tensors its libraries take, at most 1024 and the replica's share of
// `samples`, and returns a note with the batch, its memory and the bound; for other configs returns
// an empty notice. The bound is train.memory_mb, else 90 % of what a GPU has free once it has
// trained on one sample, or half of the memory that is free for the CPU. `model` comes from
// model::build_model(). Throws ConfigError if not even one sample fits.
Notice resolve_batch_size(config::Config& config, const backend::Platform& platform,
                          const graph::Graph& model, std::int64_t samples);

}  // namespace trainer::train
