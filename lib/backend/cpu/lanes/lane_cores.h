// The processors that the threads of each lane run on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads/topology.h"

namespace trainer::backend::cpu {

// Defines what the threads of a lane share: an L3 cache, a node's memory, or only the machine.
// Threads are bound to single processors only on request (parallel.pin): this gained nothing on two
// idle cores and lost on busy ones.
enum class Locality { kDomain, kNode, kMachine };

struct LaneCores {
  Locality locality = Locality::kDomain;
  std::vector<std::vector<Processor>> lanes;  // empty: there are fewer processors than threads
};

// Gives each of `lanes` lanes `threads` of the processors, which have the order of Topology: of one
// L3 domain each if the domains have room for that, else of one node each, else the next ones.
LaneCores place_lanes(std::span<const Processor> processors, int lanes, int threads);

// Returns the bytes of gradients on other nodes that the lanes read if each lane sums its slice of
// the gradients of all lanes, each `gradient_bytes` long. A lane's gradient lies on the node of its
// first thread.
std::int64_t bytes_across_nodes(const LaneCores& cores, std::int64_t gradient_bytes);

// Returns, for each lane, the numbers of all `processors` on the lane's nodes.
std::vector<std::vector<int>> node_cores(const LaneCores& cores,
                                         std::span<const Processor> processors);

}  // namespace trainer::backend::cpu
