// Plain connections between ranks, used by the thread that calls. Inside the folder.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cluster/rendezvous.h"
#include "cluster/transport/interrupt.h"
#include "cluster/transport/shared_ring.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

// A connection to every rank whose number differs from this one's in a single bit. Gloo hands each
// message from the calling thread to one of its own and back, which costs more than the message
// where cores are few; here the caller itself sends and receives.
//
// Ranks of one host (of one network namespace) write into memory that both see; what else there is
// between them is a local socket, which wakes a rank that sleeps, and closes with the process at
// its other end. Others, and those whose system gives them no such memory, use TCP.
class Wires {
 public:
  // Collective; `name` is the same on all ranks and new. Throws PeerError.
  Wires(Rendezvous& rendezvous, const std::string& name);

  void begin_call() { deadline_ = Clock::now() + timeout_; }
  bool expired() const { return Clock::now() >= deadline_; }

  // Sends `out` and receives `in` bytes, both at once. What has come goes to `take` in pieces of a
  // multiple of 8 bytes, but for the last; as many bytes of `out` have left by then, so that `take`
  // may change them. Throws std::runtime_error when the connection breaks, the time is over or
  // abort() was called.
  using Take = std::function<void(std::span<const std::byte> piece)>;
  void exchange(int peer, std::span<const std::byte> out, std::size_t in, const Take& take);
  // Receives into memory.
  void exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in);

  // Ends all waits and closes the connections, from any thread.
  void abort() noexcept;

  const int rank, size;

 private:
  struct Wire {
    Socket socket;
    std::unique_ptr<SharedRing> ring;  // null: messages go through the socket
    bool closed = false;               // the socket, at the other end
  };
  Wire& wire_to(int peer);

  void exchange_by_socket(Wire& wire, std::span<const std::byte> out, std::size_t in,
                          const Take& take);
  void exchange_by_socket(Wire& wire, std::span<const std::byte> out, std::span<std::byte> in);
  void exchange_by_ring(Wire& wire, std::span<const std::byte> out, std::size_t in,
                        const Take& take);
  void wake(const Wire& wire) const;
  void wait(Wire& wire, bool for_room, bool for_data) const;
  void wait(const Socket& socket, short events) const;
  std::size_t send_some(const Socket& socket, std::span<const std::byte> out) const;
  std::size_t receive_some(const Socket& socket, std::span<std::byte> in) const;

  const Milliseconds timeout_;
  Clock::time_point deadline_;
  const bool spins_;
  Interrupt interrupt_;
  std::mutex mutex_;         // of the list, while it is filled
  std::vector<Wire> wires_;  // by bit
  std::vector<std::byte> scratch_;
  Rendezvous::Handle watch_;
};

}  // namespace trainer::cluster
