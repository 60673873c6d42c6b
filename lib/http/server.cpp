#include "http/server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/system_error.h"

namespace trainer::http {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{2000};
// The pause after a connection that cannot be accepted, which stays in the queue of the listener.
constexpr std::chrono::milliseconds kPause{10};
constexpr std::string_view kEnd = "\r\n\r\n";

Descriptor listen_on(const std::string& host, int port) {
  const auto fail = [&](const std::string& reason) -> Descriptor {
    throw DeviceError(concat("cannot listen on port ", port, " of ", host, ": ", reason));
  };
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return fail(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> address(found, &::freeaddrinfo);
  Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return fail(describe_system_error(errno));
  }
  return socket;
}

// The port is at the same place in the addresses of IPv4 and IPv6.
int read_port(const Descriptor& socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// A connection with the time that its client has.
class Connection {
 public:
  explicit Connection(Descriptor socket) : socket_(std::move(socket)) {}

  // Returns the head of a request, which is cut beyond the limit; nothing without a whole one.
  std::optional<std::string> read_head() const {
    std::string text;
    while (text.find(kEnd) == std::string::npos && text.size() <= Server::kMaxRequestBytes) {
      char piece[2048];
      const ssize_t count = wait(POLLIN) ? ::recv(socket_.get(), piece, sizeof piece, 0) : 0;
      if (count <= 0) return std::nullopt;
      text.append(piece, static_cast<std::size_t>(count));
    }
    return text;
  }

  // Reads what follows a request, too: the kernel would otherwise drop the answer on the way.
  void send(std::string_view text) const {
    while (!text.empty() && wait(POLLOUT)) {
      const ssize_t count = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    ::shutdown(socket_.get(), SHUT_WR);
    char piece[2048];
    while (wait(POLLIN) && ::recv(socket_.get(), piece, sizeof piece, 0) > 0) {
    }
  }

 private:
  // Returns whether the socket is ready before the client's time is over.
  bool wait(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit_ - Clock::now());
    pollfd ready{socket_.get(), events, 0};
    return left.count() > 0 && ::poll(&ready, 1, static_cast<int>(left.count())) > 0;
  }

  Descriptor socket_;
  Clock::time_point limit_ = Clock::now() + kPatience;
};

std::string make_answer(std::string_view head, const Server::Answer& answer) {
  constexpr std::string_view kGet = "GET ";
  Page page{431, "the request is too large\n"};
  if (head.find(kEnd) <= Server::kMaxRequestBytes - kEnd.size()) {
    page = {405, "only GET is answered\n"};
    if (head.starts_with(kGet)) {
      head.remove_prefix(kGet.size());
      page = answer(head.substr(0, head.find_first_of(" ?\r")));
    }
  }
  return concat("HTTP/1.1 ", page.status, " \r\nContent-Type: text/plain; version=0.0.4\r\n",
                "Content-Length: ", page.body.size(), "\r\nConnection: close", kEnd, page.body);
}

}  // namespace

Server::Server(const std::string& host, int port, Answer answer)
    : answer_(std::move(answer)),
      listener_(listen_on(host, port)),
      port_(read_port(listener_)),
      thread_([this] { run(); }) {}

Server::~Server() {
  is_over_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);  // ends accept4()
  thread_.join();
}

void Server::run() const {
  while (!is_over_) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      std::this_thread::sleep_for(kPause);
      continue;
    }
    const Connection connection(std::move(socket));
    if (const auto head = connection.read_head()) connection.send(make_answer(*head, answer_));
  }
}

}  // namespace trainer::http
