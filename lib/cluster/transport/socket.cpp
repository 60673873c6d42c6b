#include "cluster/transport/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/system_error.h"
#include "cluster/identity/sources.h"
#include "cluster/own_address.h"

namespace trainer::cluster {
namespace {

constexpr int kStreamSocketType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& host, int port, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (failure != 0)
    reason = "the host name '" + host + "' is not known: " + ::gai_strerror(failure);
  return {failure == 0 ? list : nullptr, &::freeaddrinfo};
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

// Returns the numeric address of one end of a socket, which getsockname() or getpeername() gives.
std::string read_host(const Socket& socket, decltype(&::getsockname) read_end) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  char host[NI_MAXHOST];
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  read_end(socket.get(), address, &length);
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  const std::string text = host;
  // A version 4 peer of a version 6 socket.
  return text.rfind("::ffff:", 0) == 0 ? text.substr(7) : text;
}

// Waits for the outcome of a connect; an errno value.
int finish_connect(const Socket& socket, Clock::time_point deadline) {
  pollfd event{socket.get(), POLLOUT, 0};
  const int ready = ::poll(&event, 1, poll_timeout(deadline));
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int failure = 0;
  socklen_t length = sizeof failure;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  return failure;
}

// Happens when nobody listens on a port of this host that the kernel then chose for this end.
bool connected_to_itself(const Socket& socket) {
  sockaddr_storage ends[2]{};
  socklen_t length = sizeof ends[0];
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&ends[0]), &length);
  length = sizeof ends[1];
  ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&ends[1]), &length);
  return std::memcmp(&ends[0], &ends[1], sizeof ends[0]) == 0;
}

sockaddr_storage any_address(int family, int port, socklen_t& length) {
  sockaddr_storage storage{};
  if (family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_any;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof v4;
  }
  return storage;
}

}  // namespace

Socket listen_at(const Address& address) {
  Socket socket;
  socklen_t length = 0;
  sockaddr_storage storage{};
  if (const std::string local = own_address(address.host);
      !local.empty() || is_loopback(address.host)) {
    std::string reason;
    const AddressList list = resolve(local.empty() ? address.host : local, address.port, reason);
    if (!list) wrong(to_string(address), reason);
    socket = Socket(::socket(list->ai_family, kStreamSocketType, 0));
    length = list->ai_addrlen;
    std::memcpy(&storage, list->ai_addr, length);
  } else {
    // Version 6 takes connections of version 4 too, where the kernel has it.
    socket = Socket(::socket(AF_INET6, kStreamSocketType, 0));
    const int family = socket ? AF_INET6 : AF_INET;
    if (!socket) socket = Socket(::socket(family, kStreamSocketType, 0));
    if (family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    storage = any_address(family, address.port, length);
  }
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0 &&
      ::listen(socket.get(), SOMAXCONN) == 0) {
    return socket;
  }
  if (errno == EADDRINUSE) {
    wrong(to_string(address),
          concat("port ", address.port,
                 " is in use on this host; end the process that listens there (ss -ltnp "
                 "names it), or choose another port"));
  }
  wrong(to_string(address), std::string("cannot listen here: ") + describe_system_error(errno));
}

Socket listen_on(const std::string& host, int& port) {
  std::string reason;
  const AddressList list = resolve(host, 0, reason);
  Socket socket(list ? ::socket(list->ai_family, kStreamSocketType, 0) : -1);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (!socket || ::bind(socket.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw DeviceError("cannot listen on ", host, ": ",
                      reason.empty() ? describe_system_error(errno) : reason);
  }
  // The port stands at the same place in addresses of both versions.
  port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return socket;
}

int poll_timeout(Clock::time_point deadline) {
  constexpr std::int64_t kDay = 24 * 3600 * 1000;
  const auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kDay));
}

Socket connect_to(const Address& address, Clock::time_point deadline, std::string& reason) {
  const AddressList list = resolve(address.host, address.port, reason);
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    Socket socket(::socket(entry->ai_family, kStreamSocketType, 0));
    if (!socket) {
      reason = describe_system_error(errno);
      continue;
    }
    int failure = 0;
    if (::connect(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0) {
      failure = errno == EINPROGRESS ? finish_connect(socket, deadline) : errno;
    }
    if (failure == 0 && connected_to_itself(socket)) failure = ECONNREFUSED;
    if (failure == 0) {
      set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    reason = describe_system_error(failure);
  }
  return {};
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return socket;
}

std::string local_host(const Socket& socket) { return read_host(socket, &::getsockname); }

std::string remote_host(const Socket& socket) { return read_host(socket, &::getpeername); }

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  set_option(socket_, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket_.get(), raw, length) != 0 || ::getsockname(socket_.get(), raw, &length) != 0) {
    throw DeviceError(std::string("no free port on 127.0.0.1: ") + describe_system_error(errno));
  }
  number_ = ntohs(address.sin_port);
}

std::uint64_t Reader::number() {
  std::uint64_t value = 0;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

std::string Reader::text() { return std::string(take(number())); }

std::string_view Reader::take(std::size_t size) {
  if (size > rest_.size()) throw PeerError("a message of another process is damaged");
  const std::string_view part = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return part;
}

std::optional<std::string> take_message(std::string& buffer) {
  constexpr std::uint32_t kMaxMessageBytes = 1u << 30;
  std::uint32_t length = 0;
  if (buffer.size() < sizeof length) return {};
  std::memcpy(&length, buffer.data(), sizeof length);
  if (length == 0 || length > kMaxMessageBytes) {
    throw PeerError("the bytes received are not a message of this program");
  }
  if (buffer.size() < sizeof length + length) return {};
  std::string message = buffer.substr(sizeof length, length);
  buffer.erase(0, sizeof length + length);
  return message;
}

bool receive(const Socket& socket, std::string& buffer, std::size_t max_bytes) {
  char chunk[65536];
  while (true) {
    if (buffer.size() >= max_bytes) return true;
    const ssize_t got = ::recv(socket.get(), chunk, sizeof chunk, 0);
    if (got > 0) {
      buffer.append(chunk, got);
    } else if (got == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
}

bool transmit(const Socket& socket, std::string& buffer) {
  while (!buffer.empty()) {
    const ssize_t sent = ::send(socket.get(), buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      buffer.erase(0, sent);
    } else if (errno != EINTR) {
      return errno == EAGAIN;
    }
  }
  return true;
}

}  // namespace trainer::cluster
