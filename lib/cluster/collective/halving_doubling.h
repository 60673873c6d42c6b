// Sums of ranks whose number is a power of two. Inside the folder.
#pragma once

#include <cstdint>
#include <span>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH (2005),
// section 4.5, with the nearest rank first, so that what is added is (r0 + r1) + (r2 + r3), and
// without halves where they gain nothing. The number of ranks is a power of two. Throws the errors
// of Transport.
void halving_doubling(Transport& transport, std::span<float> values);
void halving_doubling(Transport& transport, std::span<double> values);
void halving_doubling(Transport& transport, std::span<std::int64_t> values);

}  // namespace trainer::cluster
