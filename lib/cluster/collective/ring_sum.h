// Sums in which a rank sends to one rank only and receives from one only. Inside the folder.
#pragma once

#include <span>
#include <vector>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Divides the values into a part per rank. Every part travels from the rank after its owner around
// the ring to its owner, and each rank adds its values; then the sum travels around the ring. A
// rank passes bytes on as soon as they arrive, so that a call takes 2 (p - 1) times the latency
// and 2 (p - 1) / p times the bytes. `scratch` is memory that a caller keeps for its next call.
// Throws the errors of Transport. T is float, double or std::int64_t.
template <class T>
void ring_sum(Transport& transport, std::span<T> values, std::vector<T>& scratch);

}  // namespace trainer::cluster
