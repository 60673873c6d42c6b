// Exchanges of few bytes in which every rank sends to every other rank at once, so that they take
// the time of one message. Between ranks that are far apart, a call takes the latency of all
// messages that follow each other: of p ranks, 2 (p - 1) for a sum by Gloo's ring, p - 1 for a
// gather, and log2 p for a broadcast by its tree. Inside the folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

inline constexpr int kMaxDirectRanks = 32;  // a rank sends one message after another

// Returns whether an exchange in which all ranks together have this number of bytes takes longer by
// its latency than by its bytes.
bool is_direct(std::size_t bytes_of_all_ranks, int ranks);

// These do the work of the functions of the same names of Communicator, and throw the errors of
// Transport.
void direct_broadcast(Transport& transport, std::span<std::byte> bytes, int root);
void direct_all_gather(Transport& transport, std::span<const std::byte> sent,
                       std::span<std::byte> all);
void direct_sum(Transport& transport, std::span<std::int64_t> values);

// Sums with the bits of Gloo's ring, in two messages that follow each other instead of 2 (p - 1),
// and with as many bytes: every rank sends each other rank that rank's part, sums its own part in
// the order of the ring, and sends the sum to all. `values` have at most kMaxDirectRingBytes: for
// more, Gloo's ring is better, which adds one segment while another one travels. `scratch` is
// memory that a caller keeps for its next call.
inline constexpr std::size_t kMaxDirectRingBytes = 4 << 20;
template <class T>
void direct_ring(Transport& transport, std::span<T> values, std::vector<T>& scratch);

}  // namespace trainer::cluster
