#include "cluster/transport/transport.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "cluster/transport/connect_peers.h"
#include "cluster/waiting.h"

namespace trainer::cluster {
namespace {

// The bytes of a message that are received at once over TCP, and those that are written through
// memory before the other direction is read.
constexpr std::size_t kPiece = 128 << 10, kRingPiece = 32 << 10;
// The memory grows with the square of the number of ranks that share it with all others.
constexpr int kMaxSharingRanks = 8;
constexpr auto kSpin = std::chrono::microseconds(200);

[[noreturn]] void fail_connection(int peer, const std::string& reason) {
  throw TransportError(TransportError::Kind::kBroken, peer, reason);
}

// Returns whether every rank of this host can have a core.
bool enough_cores(const Rendezvous& rendezvous) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return rendezvous.self().local_size <= cores;
}

bool may_try_again() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

Transport::Transport(Rendezvous& rendezvous, const std::string& name)
    : rank(rendezvous.rank()),
      size(rendezvous.size()),
      rendezvous_(rendezvous),
      network_(rendezvous.network()),
      timeout_(rendezvous.timeout()),
      last_progress_(network_.now()),
      spins_(enough_cores(rendezvous)),
      interrupt_(network_),
      connections_(size),
      scratch_(kPiece),
      watch_(rendezvous.on_loss([this] { abort(); })) {
  std::vector<int> peers, neighbours;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    peers.push_back(peer);
    const bool shares =
        size <= kMaxSharingRanks || std::has_single_bit(static_cast<unsigned>(peer ^ rank));
    if (rendezvous.shared_memory() && shares) neighbours.push_back(peer);
  }
  auto found =
      connect_peers(rendezvous, name, peers, neighbours, last_progress_ + timeout_, interrupt_);
  {
    const std::lock_guard lock(mutex_);
    for (PeerConnection& other : found) {
      Connection& connection = connection_to(other.rank);
      if (other.memory) {
        connection.ring = std::make_unique<SharedRing>(other.memory, other.called ? 1 : 0);
      }
      connection.socket = std::move(other.socket);
    }
  }
  measure_ = rendezvous.before_heartbeat([this] { measure_traffic(); });
}

void Transport::begin_call() { last_progress_ = network_.now(); }

void Transport::exchange(int peer, std::span<const std::byte> out, std::size_t in,
                         const Take& take) {
  if (connection_to(peer).ring) {
    exchange_by_ring(peer, out, in, take);
  } else {
    exchange_by_socket(peer, out, in, take);
  }
}

void Transport::exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = send_some(peer, out);
    out = out.subspan(sent);
    const std::size_t received = receive_some(peer, in);
    in = in.subspan(received);
    if (sent > 0 || received > 0) continue;
    const Direction direction{peer, !out.empty(), !in.empty()};
    wait(std::span(&direction, 1));
  }
}

// There is no deadlock: a rank that may take no more has sent no more than it has received. Its
// peer has then sent at least as much, and may take the rest.
void Transport::exchange_by_socket(int peer, std::span<const std::byte> out, std::size_t in,
                                   const Take& take) {
  // The bytes sent beyond those received, and the bytes received but not taken.
  std::size_t ahead = 0, filled = 0;
  while (!out.empty() || in > 0) {
    const std::size_t sent = send_some(peer, out);
    out = out.subspan(sent);
    ahead += sent;
    const std::size_t max_bytes = out.empty() ? in : std::min(in, ahead);
    const std::size_t received = receive_some(
        peer, std::span(scratch_).subspan(filled, std::min(max_bytes, kPiece - filled)));
    filled += received;
    in -= received;
    ahead -= std::min(received, ahead);
    if (received > 0) {
      const std::size_t whole = in == 0 ? filled : filled / 8 * 8;
      take(std::span(scratch_).first(whole));
      std::memmove(scratch_.data(), scratch_.data() + whole, filled - whole);
      filled -= whole;
    }
    if (sent > 0 || received > 0) continue;
    const Direction direction{peer, !out.empty(), max_bytes > 0};
    wait(std::span(&direction, 1));
  }
}

void Transport::exchange_by_ring(int peer, std::span<const std::byte> out, std::size_t in,
                                 const Take& take) {
  Connection& connection = connection_to(peer);
  std::size_t ahead = 0;
  while (!out.empty() || in > 0) {
    const std::size_t sent = send_some(peer, out);
    out = out.subspan(sent);
    ahead += sent;
    const std::size_t max_bytes = out.empty() ? in : std::min(in, ahead);
    const std::span<const std::byte> piece =
        connection.ring->readable(std::min(max_bytes, kRingPiece));
    if (!piece.empty()) {
      take(piece);
      connection.ring->consume(piece.size());
      count_received(peer, piece.size());
      in -= piece.size();
      ahead -= std::min(piece.size(), ahead);
      wake(connection);
    }
    if (sent > 0 || !piece.empty()) continue;
    const Direction direction{peer, !out.empty(), max_bytes > 0};
    wait(std::span(&direction, 1));
  }
}

std::size_t Transport::send_some(int peer, std::span<const std::byte> out) {
  if (out.empty()) return 0;
  Connection& connection = connection_to(peer);
  std::size_t sent = 0;
  if (connection.ring) {
    sent = connection.ring->write(out.first(std::min(out.size(), kRingPiece)));
    if (sent > 0) wake(connection);
  } else {
    const ssize_t result = ::send(connection.socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
    if (result < 0 && !may_try_again()) {
      fail_connection(peer, std::string("sending failed: ") + std::strerror(errno));
    }
    sent = result < 0 ? 0 : static_cast<std::size_t>(result);
  }
  count_sent(peer, sent);
  return sent;
}

std::size_t Transport::receive_some(int peer, std::span<std::byte> in) {
  if (in.empty()) return 0;
  Connection& connection = connection_to(peer);
  std::size_t received = 0;
  if (connection.ring) {
    const std::span<const std::byte> piece =
        connection.ring->readable(std::min(in.size(), kRingPiece));
    received = piece.size();
    if (received > 0) {
      std::memcpy(in.data(), piece.data(), received);
      connection.ring->consume(received);
      wake(connection);
    }
  } else {
    const ssize_t result = ::recv(connection.socket.get(), in.data(), in.size(), 0);
    if (result == 0) fail_connection(peer, "the connection was closed");
    if (result < 0 && !may_try_again()) {
      fail_connection(peer, std::string("receiving failed: ") + std::strerror(errno));
    }
    received = result < 0 ? 0 : static_cast<std::size_t>(result);
  }
  count_received(peer, received);
  return received;
}

void Transport::count_sent(int peer, std::size_t bytes) {
  if (bytes == 0) return;
  moved_ = true;
  connection_to(peer).sent.fetch_add(bytes, std::memory_order_relaxed);
  rendezvous_.traffic(peer).sent.fetch_add(bytes, std::memory_order_relaxed);
}

void Transport::count_received(int peer, std::size_t bytes) {
  if (bytes == 0) return;
  moved_ = true;
  connection_to(peer).received.fetch_add(bytes, std::memory_order_relaxed);
  rendezvous_.traffic(peer).received.fetch_add(bytes, std::memory_order_relaxed);
}

// The counts are read before the queues of the socket, so that bytes which move in between are
// missing in this measurement and counted in the next one.
void Transport::measure_traffic() {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size; ++peer) {
    Connection& connection = connection_to(peer);
    if (!connection.socket || connection.ring) continue;
    const std::uint64_t sent = connection.sent, received = connection.received;
    int unacknowledged = 0, unread = 0;
    if (::ioctl(connection.socket.get(), SIOCOUTQ, &unacknowledged) != 0 ||
        ::ioctl(connection.socket.get(), FIONREAD, &unread) != 0) {
      continue;
    }
    const std::uint64_t queued =
        std::min<std::uint64_t>(sent, static_cast<std::uint64_t>(unacknowledged));
    const std::uint64_t moved = sent - queued + received + static_cast<std::uint64_t>(unread);
    if (moved <= connection.moved) continue;
    rendezvous_.traffic(peer).moved += moved - connection.moved;
    connection.moved = moved;
  }
}

// Ignores errors: a rank that has gone needs no waking, and the next wait for it reports it.
void Transport::wake(const Connection& connection) const {
  if (!connection.ring->must_wake()) return;
  const std::byte one{1};
  [[maybe_unused]] const auto sent = ::send(connection.socket.get(), &one, 1, MSG_NOSIGNAL);
}

bool Transport::is_ready(std::span<const Direction> directions) {
  return std::ranges::any_of(directions, [&](const Direction& direction) {
    const SharedRing* ring = connection_to(direction.peer).ring.get();
    return ring != nullptr &&
           ((direction.send && ring->has_room()) || (direction.receive && ring->has_data()));
  });
}

// Spins before it sleeps: ranks with equal work reach a call within moments of each other, and
// waking a thread takes longer.
void Transport::wait(std::span<const Direction> directions) {
  if (moved_) begin_call();
  moved_ = false;
  const bool only_memory = std::ranges::all_of(directions, [&](const Direction& direction) {
    return connection_to(direction.peer).ring != nullptr;
  });
  if (spins_ && only_memory && !sleeps_when_waiting()) {
    const auto end = Clock::now() + kSpin;
    while (!interrupt_.raised() && Clock::now() < end) {
      for (int i = 0; i < 32; ++i) {
        if (is_ready(directions)) return;
        __builtin_ia32_pause();
      }
    }
  }
  for (const Direction& direction : directions) {
    if (SharedRing* ring = connection_to(direction.peer).ring.get()) ring->begin_sleep();
  }
  if (!is_ready(directions)) sleep(directions);
  for (const Direction& direction : directions) {
    if (SharedRing* ring = connection_to(direction.peer).ring.get()) ring->end_sleep();
  }
}

void Transport::sleep(std::span<const Direction> directions) {
  files_.clear();
  for (const Direction& direction : directions) {
    const Connection& connection = connection_to(direction.peer);
    if (connection.closed) fail_connection(direction.peer, "the connection was closed");
    const int events = connection.ring
                           ? POLLIN
                           : (direction.send ? POLLOUT : 0) | (direction.receive ? POLLIN : 0);
    files_.push_back({connection.socket.get(), static_cast<short>(events), 0});
  }
  files_.emplace_back();
  poll(files_, directions);
  for (const Direction& direction : directions) {
    Connection& connection = connection_to(direction.peer);
    if (!connection.ring) continue;
    std::byte bells[64];
    const ssize_t got = ::recv(connection.socket.get(), bells, sizeof bells, 0);
    // The next call reads the data that the other end has written before it closed.
    connection.closed = got == 0 || (got < 0 && !may_try_again());
  }
}

// Data that moves between any two ranks is progress: this rank may wait for one that waits itself.
// Reasons: lib/decisions/cluster.md#the-time-out-applies-to-progress.
void Transport::poll(std::span<pollfd> files, std::span<const Direction> directions) {
  const auto count_waits = [&](std::uint64_t change) {
    for (const Direction& direction : directions) {
      PeerTraffic& traffic = rendezvous_.traffic(direction.peer);
      if (direction.receive) traffic.receive_waits.fetch_add(change);
      if (direction.send) traffic.send_waits.fetch_add(change);
    }
  };
  const auto deadline = [&] {
    return std::max(last_progress_, rendezvous_.last_progress()) + timeout_;
  };
  count_waits(1);
  bool is_over = false;
  try {
    while (!is_over && !interrupt_.wait_for(files, deadline())) {
      is_over = network_.now() >= deadline();
    }
  } catch (...) {
    count_waits(std::uint64_t{0} - 1);
    throw;
  }
  if (!is_over) {
    count_waits(std::uint64_t{0} - 1);
    return;
  }
  // The waits stay counted, because this rank still waits while it searches for the cause.
  std::optional<int> peer;
  if (directions.size() == 1) peer = directions.front().peer;
  throw TransportError(
      TransportError::Kind::kTimeout, peer,
      concat("no data has moved for ", seconds(timeout_), ", the limit of parallel.timeout"));
}

void Transport::abort() noexcept {
  interrupt_.raise();
  const std::lock_guard lock(mutex_);
  for (const Connection& connection : connections_) {
    if (connection.socket) ::shutdown(connection.socket.get(), SHUT_RDWR);
  }
}

}  // namespace trainer::cluster
