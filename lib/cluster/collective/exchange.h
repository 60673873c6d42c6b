// Exchanges in which every rank sends to every other rank at once, so that each takes the time of
// one message, whatever the number of ranks. Inside the folder.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cluster/transport/transport.h"

namespace trainer::cluster {

// What is sent to a rank and received from it.
struct Exchange {
  int peer = 0;
  std::span<const std::byte> out;
  std::span<std::byte> in;
};

// Runs exchanges with different peers side by side, and leaves `exchanges` empty. Throws the errors
// of Transport, as do the functions below.
void run_exchanges(Transport& transport, std::vector<Exchange>& exchanges);

// Returns whether an exchange in which all ranks together have this number of bytes takes longer by
// its latency than by its bytes.
bool is_short(std::size_t bytes_of_all_ranks);

// Copies the bytes of rank `root` to all ranks: in one exchange if they are few, otherwise in parts
// that the ranks pass on to each other, so that no rank sends more than twice as many.
void broadcast(Transport& transport, std::span<std::byte> bytes, int root);

// Gathers `sent` of all ranks in `all`, in rank order.
void all_gather(Transport& transport, std::span<const std::byte> sent, std::span<std::byte> all);

}  // namespace trainer::cluster
