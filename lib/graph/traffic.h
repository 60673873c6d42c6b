// Counts the memory that a node has to read and write.
#pragma once

#include "graph/graph.h"

namespace trainer::graph {

// Returns the bytes of a value for `samples` samples.
double count_bytes(const Graph& graph, ValueId id, double samples);

// Returns the bytes of a node's operands for `samples` samples: every input is read once and every
// output is written once, even where it shares the memory of an input. Returns 0 for a reshape,
// which moves nothing.
double traffic(const Graph& graph, const Node& node, double samples);

}  // namespace trainer::graph
