#include "cluster/wires.h"

#include <poll.h>
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
  for (; higher > 0; --higher) accept_one(listener, rendezvous.generation());
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

void Wires::accept_one(const Socket& listener, std::uint64_t generation) {
  while (true) {
    wait(listener, POLLIN);
    Socket socket = accept_from(listener);
    Greeting greeting;
    if (!socket || !read_greeting(socket, std::as_writable_bytes(std::span(&greeting, 1))))
      continue;
    const auto difference = static_cast<unsigned>(static_cast<int>(greeting.rank) ^ rank);
    if (greeting.generation != generation || greeting.rank >= size ||
        !std::has_single_bit(difference)) {
      continue;
    }
    const std::lock_guard lock(mutex_);
    socket_to(static_cast<int>(greeting.rank)) = std::move(socket);
    return;
  }
}

// Not one byte more: the first message may be right behind it. False when the other end closes.
bool Wires::read_greeting(const Socket& socket, std::span<std::byte> bytes) const {
  try {
    while (!bytes.empty()) {
      wait(socket, POLLIN);
      bytes = bytes.subspan(receive_some(socket, bytes));
    }
    return true;
  } catch (const std::runtime_error&) {
    if (aborted_ || expired()) throw;
    return false;
  }
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
  if (aborted_) broken("the call was ended");
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline_ - Clock::now()).count();
  pollfd files[2]{{socket.get(), events, 0}, {waker_.get(), POLLIN, 0}};
  const int ready = ::poll(files, 2, static_cast<int>(std::max<std::int64_t>(left, 0)) + 1);
  if (ready == 0)
    broken(concat("nothing came within ", static_cast<double>(timeout_.count()) / 1000, " s"));
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
