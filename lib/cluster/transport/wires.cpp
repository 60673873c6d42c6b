#include "cluster/transport/wires.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "cluster/transport/connect_peers.h"
#include "cluster/waiting.h"

namespace trainer::cluster {
namespace {

// The bytes of a message that are received at once over TCP, and those that are written through
// memory before the other direction is read.
constexpr std::size_t kPiece = 128 << 10, kRingPiece = 32 << 10;
constexpr auto kSpin = std::chrono::microseconds(200);

[[noreturn]] void fail_wire(const std::string& reason) { throw std::runtime_error(reason); }

// Returns whether every rank of this host can have a core.
bool enough_cores(const Rendezvous& rendezvous) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return rendezvous.self().local_size <= cores;
}

}  // namespace

Wires::Wires(Rendezvous& rendezvous, const std::string& name)
    : rank(rendezvous.rank()),
      size(rendezvous.size()),
      timeout_(rendezvous.timeout()),
      deadline_(Clock::now() + timeout_),
      spins_(enough_cores(rendezvous)),
      wires_(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(size)))),
      scratch_(kPiece),
      watch_(rendezvous.on_loss([this] { abort(); })) {
  std::vector<int> peers;
  for (int bit = 1; bit < size; bit *= 2) peers.push_back(rank ^ bit);
  auto found = connect_peers(rendezvous, concat("wires/", name), peers, rendezvous.shared_memory(),
                             deadline_, interrupt_);
  const std::lock_guard lock(mutex_);
  for (PeerConnection& other : found) {
    Wire& wire = wire_to(other.rank);
    if (other.memory) wire.ring = std::make_unique<SharedRing>(other.memory, other.called ? 1 : 0);
    wire.socket = std::move(other.socket);
  }
}

Wires::Wire& Wires::wire_to(int peer) {
  return wires_.at(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(peer ^ rank))));
}

void Wires::exchange(int peer, std::span<const std::byte> out, std::size_t in, const Take& take) {
  Wire& wire = wire_to(peer);
  if (wire.ring) {
    exchange_by_ring(wire, out, in, take);
  } else {
    exchange_by_socket(wire, out, in, take);
  }
}

void Wires::exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
  Wire& wire = wire_to(peer);
  if (!wire.ring) {
    exchange_by_socket(wire, out, in);
    return;
  }
  std::byte* to = in.data();
  exchange_by_ring(wire, out, in.size(), [&](std::span<const std::byte> piece) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  });
}

// Two ranks that take no more than they have sent do not wait for each other for ever: one that has
// taken all that it may has sent no more than has come, so that the other one, having sent as much,
// may take the rest of it.
void Wires::exchange_by_socket(Wire& wire, std::span<const std::byte> out, std::size_t in,
                               const Take& take) {
  std::size_t ahead = 0, filled = 0;  // sent more than received; received and not taken
  while (!out.empty() || in > 0) {
    const std::size_t sent = send_some(wire.socket, out);
    out = out.subspan(sent);
    ahead += sent;
    const std::size_t most = out.empty() ? in : std::min(in, ahead);
    const std::size_t got = receive_some(
        wire.socket, std::span(scratch_).subspan(filled, std::min(most, kPiece - filled)));
    filled += got;
    in -= got;
    ahead -= std::min(got, ahead);
    if (got > 0) {
      const std::size_t whole = in == 0 ? filled : filled / 8 * 8;
      take(std::span(scratch_).first(whole));
      std::memmove(scratch_.data(), scratch_.data() + whole, filled - whole);
      filled -= whole;
    }
    if (sent == 0 && got == 0) {
      wait(wire.socket, static_cast<short>((out.empty() ? 0 : POLLOUT) | (most > 0 ? POLLIN : 0)));
    }
  }
}

void Wires::exchange_by_socket(Wire& wire, std::span<const std::byte> out,
                               std::span<std::byte> in) {
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = send_some(wire.socket, out);
    out = out.subspan(sent);
    const std::size_t got = receive_some(wire.socket, in);
    in = in.subspan(got);
    if (sent == 0 && got == 0) {
      wait(wire.socket,
           static_cast<short>((out.empty() ? 0 : POLLOUT) | (in.empty() ? 0 : POLLIN)));
    }
  }
}

// In small pieces, so that both ends write and read at once.
void Wires::exchange_by_ring(Wire& wire, std::span<const std::byte> out, std::size_t in,
                             const Take& take) {
  SharedRing& ring = *wire.ring;
  std::size_t ahead = 0;
  while (!out.empty() || in > 0) {
    const std::size_t sent = ring.write(out.first(std::min(out.size(), kRingPiece)));
    out = out.subspan(sent);
    ahead += sent;
    if (sent > 0) wake(wire);
    const std::size_t most = out.empty() ? in : std::min(in, ahead);
    const std::span<const std::byte> piece = ring.readable(std::min(most, kRingPiece));
    if (!piece.empty()) {
      take(piece);
      ring.consume(piece.size());
      in -= piece.size();
      ahead -= std::min(piece.size(), ahead);
      wake(wire);
    }
    if (sent == 0 && piece.empty()) wait(wire, !out.empty(), most > 0);
  }
}

// One that has gone needs no waking, and is noticed when something is expected of it.
void Wires::wake(const Wire& wire) const {
  if (!wire.ring->must_wake()) return;
  const std::byte one{1};
  [[maybe_unused]] const auto sent = ::send(wire.socket.get(), &one, 1, MSG_NOSIGNAL);
}

// Ranks that compute the same come within moments of each other, and to be woken takes longer.
void Wires::wait(Wire& wire, bool for_room, bool for_data) const {
  SharedRing& ring = *wire.ring;
  const auto ready = [&] { return (for_room && ring.has_room()) || (for_data && ring.has_data()); };
  if (spins_ && !sleeps_when_waiting()) {
    const auto end = Clock::now() + kSpin;
    while (!interrupt_.raised() && Clock::now() < end) {
      for (int i = 0; i < 32; ++i) {
        if (ready()) return;
        __builtin_ia32_pause();
      }
    }
  }
  ring.begin_sleep();
  if (!ready()) {
    if (wire.closed) fail_wire("the connection was closed");
    wait(wire.socket, POLLIN);
    std::byte bells[64];
    const ssize_t got = ::recv(wire.socket.get(), bells, sizeof bells, 0);
    // What was written before it closed is still to be read.
    wire.closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }
  ring.end_sleep();
}

void Wires::wait(const Socket& socket, short events) const {
  interrupt_.wait_for(socket, events, deadline_, timeout_);
}

std::size_t Wires::send_some(const Socket& socket, std::span<const std::byte> out) const {
  if (out.empty()) return 0;
  const ssize_t sent = ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return 0;
  fail_wire(std::string("sending failed: ") + std::strerror(errno));
}

std::size_t Wires::receive_some(const Socket& socket, std::span<std::byte> in) const {
  if (in.empty()) return 0;
  const ssize_t got = ::recv(socket.get(), in.data(), in.size(), 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) fail_wire("the connection was closed");
  if (errno == EAGAIN || errno == EINTR) return 0;
  fail_wire(std::string("receiving failed: ") + std::strerror(errno));
}

void Wires::abort() noexcept {
  interrupt_.raise();
  const std::lock_guard lock(mutex_);
  for (const Wire& wire : wires_) {
    if (wire.socket) ::shutdown(wire.socket.get(), SHUT_RDWR);
  }
}

}  // namespace trainer::cluster
