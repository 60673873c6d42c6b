// The memory that a node has to touch.
#pragma once

#include "graph/graph.h"

namespace trainer::graph {

// Bytes of a value for so many samples.
double bytes_of(const Graph& graph, ValueId id, double samples);

// Bytes of a node's operands for so many samples: every input read once and every output written
// once, though the output may be the memory of an input. 0 for a reshape, which moves nothing.
double traffic(const Graph& graph, const Node& node, double samples);

}  // namespace trainer::graph
