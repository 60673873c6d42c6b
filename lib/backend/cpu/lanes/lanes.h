// Chooses the number of lanes of a program, which compute micro-batches side by side.
// Reasons: lib/decisions/backend.md#threads-split-the-batch.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/lanes/lane_cores.h"
#include "backend/cpu/variables.h"
#include "base/threads/cores.h"

namespace trainer::backend::cpu {

// The number of samples that a lane computes at once if the batch may be cut. Larger micro-batches
// gain nothing and leave the caches; smaller micro-batches cost more calls of every primitive.
constexpr std::int64_t kMicroBatch = 64;

// Returns whether a program normalises by the statistics of its batch, so that a lane's share of
// the batch may not be cut into micro-batches.
bool needs_whole_batch(const graph::Graph& graph);
// Returns the maximum number of samples that the lanes compute at once.
std::int64_t samples_at_once(const graph::Graph& graph, const CompileOptions& options, int lanes);

struct Lanes {
  int count = 1;
  // The reason for fewer lanes than threads, and the cost of lanes on several nodes; "" if neither
  // applies.
  std::string reason;
};

// Chooses the most lanes of equally many threads that leave at most a quarter of the threads idle
// and whose gradients take at most kMaxGradients times the memory of the trained parameters. A lane
// of one thread needs no barrier inside a layer, but each lane holds a gradient, which is written
// and summed in each step. Fewer lanes are chosen if the threads of each lane then share an L3
// cache, or at least a node, of these processors (place_lanes()), or if they divide the samples so
// evenly that a step is faster: 29 lanes of 2 threads compute 64 samples in three turns, 16 lanes
// of 4 threads in four turns that each take less than two thirds of the time. A training program
// has at most one lane per sample; a program that does not train has one lane per thread. The
// choice depends only on the arguments.
Lanes choose_lanes(const graph::Graph& graph, const CpuVariables& variables,
                   const CompileOptions& options, int threads,
                   std::span<const Processor> processors = {});

// Returns whether one lane of all `threads` computes a call of so few samples that some of `lanes`
// lanes would be idle, and does so faster by the model of choose_lanes(). One sample always is.
bool runs_in_one_lane(std::int64_t samples, int lanes, int threads);

}  // namespace trainer::backend::cpu
