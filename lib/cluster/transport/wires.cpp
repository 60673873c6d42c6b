#include "cluster/transport/wires.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/secret.h"
#include "cluster/transport/local_socket.h"
#include "cluster/waiting.h"

namespace trainer::cluster {
namespace {

// Of a message over TCP, what is received at once; of one through memory, what is written before
// the next look at what has come.
constexpr std::size_t kPiece = 128 << 10, kRingPiece = 32 << 10;
// Connections that have not said yet whose they are; the eldest of more is closed.
constexpr std::size_t kMostNewcomers = 256;
constexpr auto kSpin = std::chrono::microseconds(200);

constexpr std::size_t kChallengeBytes = 32, kProofBytes = 64;

[[noreturn]] void broken(const std::string& reason) { throw std::runtime_error(reason); }

std::string key_of(const std::string& name, int rank) { return concat("wires/", name, '/', rank); }

std::string proof_between(const Rendezvous& rendezvous, const std::string& name, int from, int to,
                          const std::string& challenge) {
  return rendezvous.proof({"wire", name, std::to_string(from), std::to_string(to), challenge});
}

// Under which a rank listens for those of its host.
std::string local_name(std::uint64_t generation, const std::string& name, int rank) {
  char number[17];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(generation));
  return concat("trainer-", number, '-', name, '-', rank);
}

// Whether every rank of this host can have a core.
bool enough_cores(const Rendezvous& rendezvous) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return rendezvous.self().local_size <= cores;
}

}  // namespace

// The first bytes on a connection: the rank that was called says a text, the caller answers who it
// is and a proof, made with that text, that it is a rank of this start of the job.
struct Wires::Greeting {
  std::int64_t rank = 0;
  char proof[kProofBytes] = {};
};

Wires::Wires(Rendezvous& rendezvous, const std::string& name)
    : rank(rendezvous.rank()),
      size(rendezvous.size()),
      timeout_(rendezvous.timeout()),
      deadline_(Clock::now() + timeout_),
      spins_(enough_cores(rendezvous)),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wires_(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(size)))),
      scratch_(kPiece),
      watch_(rendezvous.on_loss([this] { abort(); })) {
  int port = 0;
  Socket listeners[2]{listen_on(rendezvous.self().address, port), {}};
  if (rendezvous.shared_memory()) {
    listeners[1] = listen_locally(local_name(rendezvous.generation(), name, rank));
  }
  rendezvous.set(key_of(name, rank), to_string(Address{rendezvous.self().address, port}));
  int higher = 0;
  for (int bit = 1; bit < size; bit *= 2) {
    if ((rank & bit) != 0) {
      dial(rendezvous, name, rank ^ bit);
    } else {
      ++higher;
    }
  }
  accept(std::span(listeners).first(listeners[1] ? 2 : 1), rendezvous, name, higher);
}

void Wires::dial(Rendezvous& rendezvous, const std::string& name, int peer) {
  const std::string text = rendezvous.get(key_of(name, peer));
  Wire wire = dial_here(rendezvous, name, peer);
  if (!wire.socket) {
    std::string reason;
    wire.socket = connect_to(parse_address(text).value(), deadline_, reason);
    if (!wire.socket) broken(concat("no connection to rank ", peer, " at ", text, ": ", reason));
    const Greeting greeting = answer_challenge(rendezvous, name, peer, wire.socket);
    std::string bytes(reinterpret_cast<const char*>(&greeting), sizeof greeting);
    transmit(wire.socket, bytes);
  }
  keep(peer, std::move(wire));
}

// Without a socket when the peer is on another host.
Wires::Wire Wires::dial_here(Rendezvous& rendezvous, const std::string& name, int peer) {
  Wire wire;
  if (!rendezvous.shared_memory()) return wire;
  wire.socket = connect_locally(local_name(rendezvous.generation(), name, peer));
  if (!wire.socket) return wire;
  const Greeting greeting = answer_challenge(rendezvous, name, peer, wire.socket);
  const Socket memory = SharedRing::make_memory();
  if (memory) wire.ring = std::make_unique<SharedRing>(memory, 1);
  if (!send_with(wire.socket, std::as_bytes(std::span(&greeting, 1)), memory)) return {};
  return wire;
}

// Waits for the challenge of the rank that was called.
Wires::Greeting Wires::answer_challenge(const Rendezvous& rendezvous, const std::string& name,
                                        int peer, const Socket& socket) const {
  std::string challenge(kChallengeBytes, '\0');
  auto rest = std::as_writable_bytes(std::span(challenge));
  while (!rest.empty()) {
    const std::size_t got = receive_some(socket, rest);
    rest = rest.subspan(got);
    if (got == 0) wait(socket, POLLIN);
  }
  Greeting greeting{rank, {}};
  const std::string proof = proof_between(rendezvous, name, rank, peer, challenge);
  proof.copy(greeting.proof, kProofBytes);
  return greeting;
}

void Wires::keep(int peer, Wire wire) {
  const std::lock_guard lock(mutex_);
  wire_to(peer) = std::move(wire);
}

// One that has connected and has not said yet who it is.
struct Wires::Newcomer {
  Socket socket;
  std::string challenge;
  Greeting greeting;
  std::size_t read = 0;  // bytes of it
  Socket memory;         // that it brings along
};

// Reads all greetings side by side: a stranger that says nothing holds nobody up.
void Wires::accept(std::span<const Socket> listeners, const Rendezvous& rendezvous,
                   const std::string& name, int expected) {
  std::vector<Newcomer> newcomers;
  while (expected > 0) {
    std::vector<pollfd> files;
    for (const Socket& listener : listeners) files.push_back({listener.get(), POLLIN, 0});
    for (const Newcomer& newcomer : newcomers) files.push_back({newcomer.socket.get(), POLLIN, 0});
    files.push_back({waker_.get(), POLLIN, 0});
    wait_for(files);
    for (const Socket& listener : listeners) {
      while (Socket socket = accept_from(listener)) {
        if (newcomers.size() == kMostNewcomers) newcomers.erase(newcomers.begin());
        std::string challenge = draw_secret(kChallengeBytes / 2), bytes = challenge;
        transmit(socket, bytes);
        newcomers.push_back({std::move(socket), std::move(challenge), {}, 0, {}});
      }
    }
    for (Newcomer& newcomer : newcomers) {
      if (!read_greeting(newcomer)) continue;
      if (is_peer(newcomer, rendezvous, name)) {
        Wire wire;
        if (newcomer.memory) wire.ring = std::make_unique<SharedRing>(newcomer.memory, 0);
        wire.socket = std::move(newcomer.socket);
        keep(static_cast<int>(newcomer.greeting.rank), std::move(wire));
        --expected;
      }
      newcomer.socket = {};
    }
    std::erase_if(newcomers, [](const Newcomer& newcomer) { return !newcomer.socket; });
  }
}

// Not one byte more: the first message may be right behind it. Whether it is whole; one that closes
// loses its socket.
bool Wires::read_greeting(Newcomer& newcomer) const {
  const auto rest = std::as_writable_bytes(std::span(&newcomer.greeting, 1)).subspan(newcomer.read);
  const ssize_t got = receive_with(newcomer.socket, rest, newcomer.memory);
  if (got > 0) newcomer.read += static_cast<std::size_t>(got);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) newcomer.socket = {};
  return newcomer.read == sizeof(Greeting);
}

bool Wires::is_peer(const Newcomer& newcomer, const Rendezvous& rendezvous,
                    const std::string& name) const {
  const std::int64_t other = newcomer.greeting.rank;
  return other > rank && other < size &&
         std::has_single_bit(static_cast<unsigned>(static_cast<int>(other) ^ rank)) &&
         same_secret(
             {newcomer.greeting.proof, kProofBytes},
             proof_between(rendezvous, name, static_cast<int>(other), rank, newcomer.challenge)) &&
         (!newcomer.memory || SharedRing::is_memory(newcomer.memory));
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
    while (!aborted_ && Clock::now() < end) {
      for (int i = 0; i < 32; ++i) {
        if (ready()) return;
        __builtin_ia32_pause();
      }
    }
  }
  ring.begin_sleep();
  if (!ready()) {
    if (wire.closed) broken("the connection was closed");
    wait(wire.socket, POLLIN);
    std::byte bells[64];
    const ssize_t got = ::recv(wire.socket.get(), bells, sizeof bells, 0);
    // What was written before it closed is still to be read.
    wire.closed = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }
  ring.end_sleep();
}

void Wires::wait(const Socket& socket, short events) const {
  pollfd files[2]{{socket.get(), events, 0}, {waker_.get(), POLLIN, 0}};
  wait_for(files);
}

void Wires::wait_for(std::span<pollfd> files) const {
  if (aborted_) broken("the call was ended");
  const int ready = ::poll(files.data(), files.size(), poll_timeout(deadline_));
  if (ready == 0 && expired()) {
    broken(concat("nothing came within ", static_cast<double>(timeout_.count()) / 1000, " s"));
  }
  if (aborted_) broken("the call was ended");
}

std::size_t Wires::send_some(const Socket& socket, std::span<const std::byte> out) const {
  if (out.empty()) return 0;
  const ssize_t sent = ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return 0;
  broken(std::string("sending failed: ") + std::strerror(errno));
}

std::size_t Wires::receive_some(const Socket& socket, std::span<std::byte> in) const {
  if (in.empty()) return 0;
  const ssize_t got = ::recv(socket.get(), in.data(), in.size(), 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) broken("the connection was closed");
  if (errno == EAGAIN || errno == EINTR) return 0;
  broken(std::string("receiving failed: ") + std::strerror(errno));
}

void Wires::abort() noexcept {
  aborted_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(waker_.get(), &one, sizeof one);
  const std::lock_guard lock(mutex_);
  for (const Wire& wire : wires_) {
    if (wire.socket) ::shutdown(wire.socket.get(), SHUT_RDWR);
  }
}

}  // namespace trainer::cluster
