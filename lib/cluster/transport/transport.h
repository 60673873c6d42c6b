// The connections of a rank to all other ranks, used by the thread that calls. Inside the folder.
// Reasons: lib/decisions/cluster.md#sums-between-processes-are-our-own.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/rendezvous.h"
#include "cluster/transport/interrupt.h"
#include "cluster/transport/shared_ring.h"
#include "cluster/transport/socket.h"

namespace trainer::cluster {

// A connection has broken, or no data has moved for too long.
class TransportError : public std::runtime_error {
 public:
  enum class Kind { kBroken, kTimeout };
  TransportError(Kind error_kind, std::optional<int> other, const std::string& message)
      : std::runtime_error(message), kind(error_kind), peer(other) {}
  const Kind kind;
  const std::optional<int> peer;  // the rank at the other end, if there is only one
};

// A connection to every other rank. Messages between two ranks arrive in the order in which they
// were sent. The calling thread moves the bytes, because a hand-over to another thread costs more
// than a message where cores are few.
//
// Ranks of one host (of one network namespace) write into memory that both see; in jobs of more
// than 8 ranks, only those whose numbers differ in a single bit do. The local socket between them
// wakes a rank that sleeps, and closes with the process at its other end. All other ranks use TCP.
//
// One thread at a time may use it, but for abort(). Every call throws TransportError when a
// connection breaks or no rank of the job has moved data for the time-out of the rendezvous, and
// std::runtime_error after abort().
class Transport {
 public:
  // Collective; `name` is the same on all ranks and new. `rendezvous` must outlive the object.
  // Throws PeerError or std::runtime_error.
  Transport(Rendezvous& rendezvous, const std::string& name);

  // Restarts the time within which data must move.
  void begin_call();

  // Sends `out` and receives `in` bytes, both at once. The received bytes are passed to `take` in
  // pieces of a multiple of 8 bytes, but for the last; as many bytes of `out` have been sent by
  // then, so that `take` may change them.
  using Take = std::function<void(std::span<const std::byte> piece)>;
  void exchange(int peer, std::span<const std::byte> out, std::size_t in, const Take& take);
  // Does the same, and stores the received bytes in `in`.
  void exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in);

  // Sends or receives as many bytes of a message as can be moved at once, and returns their number.
  // Only the last part of a message may be shorter than a multiple of 64 bytes.
  std::size_t send_some(int peer, std::span<const std::byte> out);
  std::size_t receive_some(int peer, std::span<std::byte> in);

  // The directions of one connection in which a caller waits to move bytes.
  struct Direction {
    int peer = 0;
    bool send = false, receive = false;
  };
  // Blocks until one of the directions may move bytes; it may return without a reason.
  void wait(std::span<const Direction> directions);

  // Ends all waits and closes the connections; the other ranks notice at once. Any thread may call
  // it.
  void abort() noexcept;

  const int rank, size;

 private:
  struct Connection {
    Socket socket;
    std::unique_ptr<SharedRing> ring;                 // null: messages go through the socket
    bool closed = false;                              // the other end has closed the socket
    std::atomic<std::uint64_t> sent{0}, received{0};  // bytes through the socket
    std::uint64_t moved = 0;                          // bytes at the last measurement
  };
  Connection& connection_to(int peer) { return connections_.at(peer); }

  void exchange_by_socket(int peer, std::span<const std::byte> out, std::size_t in,
                          const Take& take);
  void exchange_by_ring(int peer, std::span<const std::byte> out, std::size_t in, const Take& take);
  void wake(const Connection& connection) const;
  bool is_ready(std::span<const Direction> directions);
  void sleep(std::span<const Direction> directions);
  void poll(std::span<pollfd> files, std::span<const Direction> directions);
  void count_sent(int peer, std::size_t bytes);
  void count_received(int peer, std::size_t bytes);
  // Updates PeerTraffic::moved by what has moved through the sockets.
  void measure_traffic();

  Rendezvous& rendezvous_;
  const Network& network_;
  const Milliseconds timeout_;
  Clock::time_point last_progress_;
  bool moved_ = false;  // bytes have moved since last_progress_
  const bool spins_;
  Interrupt interrupt_;
  std::mutex mutex_;                     // guards the sockets while they are filled in
  std::vector<Connection> connections_;  // indexed by rank; the own one is empty
  std::vector<std::byte> scratch_;
  std::vector<pollfd> files_;
  Rendezvous::Handle watch_, measure_;
};

}  // namespace trainer::cluster
