// Ranks as threads of the test, which meet at a port of this host. What they do with each other is
// a function of the rank.
#pragma once

#include <poll.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cluster/rendezvous.h"
#include "cluster/transport/socket.h"
#include "support/contains.h"

namespace trainer::cluster {

inline Identity make_identity(int rank, int size, int port) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.master = {"127.0.0.1", port};
  return identity;
}

inline const RendezvousOptions kPatient{std::chrono::milliseconds(30'000), "1"};

// Runs `body(rank)` on a thread each and returns the messages of what they threw, with the exit
// code.
inline std::vector<std::string> on_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        messages[static_cast<std::size_t>(rank)] = concat(error.code(), ' ', error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

// Blocks until the socket has bytes or a connection for this end, or its other end has closed.
// Throws CheckError after a minute.
inline void wait_readable(const Socket& socket) {
  pollfd polled{socket.get(), POLLIN, 0};
  if (::poll(&polled, 1, 60'000) <= 0) throw CheckError("nothing arrived within a minute");
}

using test::contains;

}  // namespace trainer::cluster
