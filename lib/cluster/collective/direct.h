// Exchanges of few bytes in which every rank sends to every other rank at once, so that they take
// the time of one message. Inside the folder.
// Reasons: lib/decisions/cluster.md#few-bytes-take-one-message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

// Returns whether an exchange in which all ranks together have this number of bytes takes longer by
// its latency than by its bytes.
bool is_direct(std::size_t bytes_of_all_ranks, int ranks);

// These do the work of the functions of the same names of Communicator, and throw the errors of
// Transport.
void direct_broadcast(Transport& transport, std::span<std::byte> bytes, int root);
void direct_all_gather(Transport& transport, std::span<const std::byte> mine,
                       std::span<std::byte> all);
void direct_sum(Transport& transport, std::span<std::int64_t> values);

}  // namespace trainer::cluster
