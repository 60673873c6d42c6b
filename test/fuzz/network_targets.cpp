// What other processes send.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "base/process/secret.h"
#include "cluster/rendezvous/coordinator.h"
#include "cluster/rendezvous/protocol.h"
#include "cluster/transport/shared_ring.h"
#include "cluster/transport/socket.h"
#include "fuzz.h"
#include "server/messages.h"

namespace trainer::fuzz {
namespace {

using cluster::Socket;

// A rank 0 that waits for a rank which never comes.
class Waiting {
 public:
  Waiting() : coordinator_(options()) {}

  void talk(Bytes input) const {
    std::string reason;
    const auto limit = cluster::Clock::now() + std::chrono::seconds(60);
    const Socket socket = cluster::connect_to({"127.0.0.1", port_.number()}, limit, reason);
    if (!socket) found("rank 0 listens no more: " + reason);
    std::string bytes(as_text(input)), answer;
    while (!bytes.empty() && cluster::transmit(socket, bytes)) {
    }
    ::shutdown(socket.get(), SHUT_WR);
    pollfd file{socket.get(), POLLIN, 0};
    while (cluster::receive(socket, answer, 1 << 20)) {
      if (::poll(&file, 1, 10'000) == 0) found("rank 0 does not close a connection that ends");
    }
  }

 private:
  cluster::CoordinatorOptions options() const {
    cluster::CoordinatorOptions options{{"127.0.0.1", port_.number()}, "job", "cluster", "1", {}};
    options.names = {"rank 0", "rank 1"};
    options.join_timeout = std::chrono::hours(24 * 365);
    options.secret = "a secret that nobody guesses";
    return options;
  }
  cluster::ReservedPort port_;
  cluster::Coordinator coordinator_;
};

}  // namespace

void run_rendezvous(Bytes input) {
  // Destroyed after rank 0, whose thread must end before OpenSSL does.
  static const std::string first_use_of_openssl = compute_proof("a secret", {"a part"});
  static const Waiting rank_0;
  rank_0.talk(input);
}

// Frames and fields, as both ends take them apart.
void run_messages(Bytes input) {
  std::string buffer(as_text(input));
  expect_errors_only([&] {
    while (const auto message = cluster::take_message(buffer)) {
      cluster::Reader reader(*message);
      for (std::size_t field = 0; field < message->size(); ++field) {
        if (((reader.kind() >> (field % 8)) & 1) != 0) {
          reader.text();
        } else {
          reader.number();
        }
      }
    }
  });
}

// The other end writes what it likes into the counts; the input is also what is sent.
void run_ring(Bytes input) {
  using cluster::SharedRing;
  constexpr std::size_t kCounts = 6 * 64;
  constexpr std::size_t kMaxTurns = 64;  // each reaches up to a megabyte
  const Socket memory = SharedRing::make_memory();
  if (!memory || !SharedRing::is_memory(memory)) found("no memory");
  SharedRing ring(memory, 0);
  auto* const words = static_cast<std::uint8_t*>(
      ::mmap(nullptr, kCounts, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
  if (words == MAP_FAILED) found("no memory");
  try {
    const std::size_t end = std::min(input.size(), 24 * kMaxTurns);
    for (std::size_t at = 0; at < end; at += 24) {
      const Bytes part = input.subspan(at, std::min<std::size_t>(24, input.size() - at));
      // The other side's counts: written, read, sleeps.
      for (std::size_t i = 0; i < part.size(); ++i) words[(3 + i / 8) * 64 + i % 8] = part[i];
      ring.write(std::as_bytes(input));
      const auto there = ring.readable(part[0] * std::size_t{4096});
      unsigned sum = 0;
      // A byte a page, and the last: what is not mapped ends the program.
      for (std::size_t i = 0; i < there.size(); i += 4096) sum += static_cast<unsigned>(there[i]);
      if (!there.empty()) sum += static_cast<unsigned>(there.back());
      use(sum);
      ring.consume(there.size());
      ring.has_room();
      ring.has_data();
      ring.must_wake();
    }
  } catch (const std::runtime_error&) {  // it noticed
  }
  ::munmap(words, kCounts);
}

// gRPC hands over messages that protobuf has taken apart.
void run_servers(Bytes input) {
  if (input.empty()) return;
  const std::string bytes(as_text(input.subspan(1)));
  try {
    server::proto::Layout layout;
    server::proto::Part part;
    server::proto::Outcome outcome;
    server::proto::Gradient gradient;
    switch (input[0] % 4) {
      case 0:
        if (layout.ParseFromString(bytes)) server::from_message(layout);
        break;
      case 1:
        if (part.ParseFromString(bytes)) server::from_message(part);
        break;
      case 2:
        if (outcome.ParseFromString(bytes)) server::from_message(outcome);
        break;
      default:
        if (gradient.ParseFromString(bytes)) {
          server::from_bytes(gradient.values());
          server::from_bytes(gradient.statistics());
        }
    }
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace trainer::fuzz
