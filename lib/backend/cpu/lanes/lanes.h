// How many lanes a program runs on: micro-batches computed side by side, each by one worker.
// Reasons: lib/decisions/backend.md#threads-split-the-batch.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/lanes/lane_cores.h"
#include "backend/cpu/variables.h"

namespace trainer::backend::cpu {

// More lanes than this have never been of use, and the update sums at most so many gradients.
constexpr int kMostLanes = 64;
// Samples that a lane computes at once where the batch may be cut. Larger micro-batches gain
// nothing and leave the caches; smaller ones pay for more calls of every primitive.
constexpr std::int64_t kMicroBatch = 64;

// Whether a program normalises by the statistics of its batch, so that a lane's share of the batch
// may not be cut into micro-batches.
bool needs_whole_batch(const graph::Graph& graph);
// The most samples that so many lanes compute at once.
std::int64_t samples_at_once(const graph::Graph& graph, const CompileOptions& options, int lanes);

struct Lanes {
  int count = 1;
  // Why there are not as many as threads, and what it costs that they lie on several nodes; "" when
  // neither is so.
  std::string reason;
};

// The most lanes of equally many threads that leave at most a quarter of the threads idle and for
// which the gradients of a training program take at most four times the memory of the parameters
// that it trains: one thread a lane needs no barrier inside a layer, but each lane holds a gradient
// of its own, which is written and summed in each step. Fewer lanes are taken where the threads of
// each then share an L3 cache, or at least a node, of these processors (place_lanes()), and where
// fewer divide the samples so evenly that a step is faster: 29 lanes of 2 threads compute 64
// samples in three turns, 16 lanes of 4 threads in four turns of less than two thirds the time. A
// training program has no more lanes than samples; one that does not train has a lane a thread. The
// choice depends on the arguments alone.
Lanes choose_lanes(const graph::Graph& graph, const CpuVariables& variables,
                   const CompileOptions& options, int threads,
                   std::span<const Processor> processors = {});

}  // namespace trainer::backend::cpu
