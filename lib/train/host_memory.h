// Checks whether training on the CPU fits the memory of the machine.
#pragma once

#include <cstdint>

#include "backend/open.h"
#include "base/notice.h"
#include "config/config.h"
#include "graph/graph.h"

namespace trainer::train {

// Returns the bytes that one replica on the CPU takes with batches of `samples`: its model, and the
// batches that the loader holds for it. Compiles the model.
std::int64_t host_bytes_per_replica(const graph::Graph& model, const config::Config& config,
                                    const backend::Platform& platform, std::int64_t samples);

// Returns a warning if the replicas, which take `planned` together on the CPU, and their batches
// need more than the `available` bytes; the system would end the program without a message. The
// warning names the largest batch that fits. `available` is 0 if unknown; the notice is empty then.
Notice host_memory_warning(const graph::Graph& model, const config::Config& config,
                           const backend::Platform& platform, const backend::MemoryReport& planned,
                           std::int64_t available);

}  // namespace trainer::train
