#include "cluster/wires.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <stdexcept>

#include "base/error.h"

namespace trainer::cluster {
namespace {

// The first bytes of a connection. Another start of the job, or a stranger, is not let in.
struct Greeting {
  std::uint64_t generation = 0;
  std::int64_t rank = 0;
};

[[noreturn]] void broken(const std::string& reason) { throw std::runtime_error(reason); }

}  // namespace

Wires::Wires(Rendezvous& rendezvous, const std::string& name)
    : rank(rendezvous.rank()),
      size(rendezvous.size()),
      timeout_(rendezvous.timeout()),
      deadline_(Clock::now() + timeout_),
      waker_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      sockets_(static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(size)))),
      scratch_(kPiece),
      watch_(rendezvous.on_loss([this] { abort(); })) {
  const std::string key = "wires/" + name + '/';
  int port = 0;
  const Socket listener = listen_on(rendezvous.self().address, port);
  rendezvous.set(key + std::to_string(rank), to_string(Address{rendezvous.self().address, port}));
  int higher = 0;
  for (int bit = 1; bit < size; bit *= 2) {
    if ((rank & bit) != 0) {
      dial(rendezvous, key, rank ^ bit);
    } else {
      ++higher;
    }
  }
  accept(listener, rendezvous.generation(), higher);
}

void Wires::dial(Rendezvous& rendezvous, const std::string& key, int peer) {
  const std::string text = rendezvous.get(key + std::to_string(peer));
  std::string reason;
  Socket socket = connect_to(parse_address(text).value(), deadline_, reason);
  if (!socket) broken(concat("no connection to rank ", peer, " at ", text, ": ", reason));
  const Greeting greeting{rendezvous.generation(), rank};
  std::string bytes(reinterpret_cast<const char*>(&greeting), sizeof greeting);
  transmit(socket, bytes);
  const std::lock_guard lock(mutex_);
  socket_to(peer) = std::move(socket);
}

// One that has connected and has not said yet who it is.
struct Wires::Newcomer {
  Socket socket;
  Greeting greeting;
  std::size_t read = 0;  // bytes of it
};

// Reads all greetings side by side: a stranger that says nothing holds nobody up.
void Wires::accept(const Socket& listener, std::uint64_t generation, int expected) {
  std::vector<Newcomer> newcomers;
  while (expected > 0) {
    std::vector<pollfd> files{{listener.get(), POLLIN, 0}};
    for (const Newcomer& newcomer : newcomers) files.push_back({newcomer.socket.get(), POLLIN, 0});
    files.push_back({waker_.get(), POLLIN, 0});
    wait_for(files);
    while (Socket socket = accept_from(listener)) newcomers.push_back({std::move(socket), {}, 0});
    for (Newcomer& newcomer : newcomers) {
      if (!read_greeting(newcomer)) continue;
      if (is_peer(newcomer, generation)) {
        const std::lock_guard lock(mutex_);
        socket_to(static_cast<int>(newcomer.greeting.rank)) = std::move(newcomer.socket);
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
  const auto bytes = std::as_writable_bytes(std::span(&newcomer.greeting, 1));
  try {
    newcomer.read += receive_some(newcomer.socket, bytes.subspan(newcomer.read));
  } catch (const std::runtime_error&) {
    newcomer.socket = {};
  }
  return newcomer.read == bytes.size();
}

bool Wires::is_peer(const Newcomer& newcomer, std::uint64_t generation) const {
  const std::int64_t other = newcomer.greeting.rank;
  return newcomer.greeting.generation == generation && other >= 0 && other < size &&
         std::has_single_bit(static_cast<unsigned>(static_cast<int>(other) ^ rank));
}

Socket& Wires::socket_to(int peer) {
  return sockets_.at(
      static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(peer ^ rank))));
}

void Wires::exchange(int peer, std::span<const std::byte> out, std::size_t in, const Take& take) {
  const Socket& socket = socket_to(peer);
  std::size_t filled = 0;
  while (!out.empty() || in > 0) {
    const std::size_t sent = send_some(socket, out);
    out = out.subspan(sent);
    const std::size_t got =
        receive_some(socket, std::span(scratch_).subspan(filled, std::min(in, kPiece - filled)));
    filled += got;
    in -= got;
    if (got > 0) {
      const std::size_t whole = in == 0 ? filled : filled / 8 * 8;
      take(std::span(scratch_).first(whole));
      std::memmove(scratch_.data(), scratch_.data() + whole, filled - whole);
      filled -= whole;
    }
    if (sent == 0 && got == 0) {
      wait(socket, static_cast<short>((out.empty() ? 0 : POLLOUT) | (in > 0 ? POLLIN : 0)));
    }
  }
}

void Wires::exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
  const Socket& socket = socket_to(peer);
  while (!out.empty() || !in.empty()) {
    const std::size_t sent = send_some(socket, out);
    out = out.subspan(sent);
    const std::size_t got = receive_some(socket, in);
    in = in.subspan(got);
    if (sent == 0 && got == 0) {
      wait(socket, static_cast<short>((out.empty() ? 0 : POLLOUT) | (in.empty() ? 0 : POLLIN)));
    }
  }
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
  for (const Socket& socket : sockets_) {
    if (socket) ::shutdown(socket.get(), SHUT_RDWR);
  }
}

}  // namespace trainer::cluster
