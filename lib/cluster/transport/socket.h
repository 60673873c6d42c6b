// TCP sockets and the messages that coordinator and ranks exchange.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/descriptor.h"
#include "cluster/identity.h"

namespace trainer::cluster {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

using Socket = Descriptor;

// Listens, not blocking, at own_address() of the host, on all interfaces where there is none.
// Throws ConfigError when the port is in use or the host unknown.
Socket listen_at(const Address& address);
// Listens on a numeric address of this host, at a port that the kernel chooses. Throws DeviceError.
Socket listen_on(const std::string& host, int& port);
// One attempt to connect until the deadline. No socket and a reason when it fails.
Socket connect_to(const Address& address, Clock::time_point deadline, std::string& reason);
// Returns the argument of poll(): the milliseconds left, at least 0 and at most a day.
int poll_timeout(Clock::time_point deadline);
// Returns the next waiting connection without blocking, or an empty socket.
Socket accept_from(const Socket& listener);

std::string local_host(const Socket& socket);   // numeric address of this end
std::string remote_host(const Socket& socket);  // numeric address of the other end

// A number that no other socket is given while this lives, though it may be listened on.
class ReservedPort {
 public:
  ReservedPort();  // reserves a port of 127.0.0.1
  int number() const { return number_; }

 private:
  Socket socket_;
  int number_ = 0;
};

// Messages are a length (4 bytes), a kind and fields one after another, all little endian.
class Writer {
 public:
  explicit Writer(std::uint8_t kind) : bytes_(4, '\0') {
    bytes_.push_back(static_cast<char>(kind));
  }
  Writer& number(std::uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
    return *this;
  }
  const std::string& finish() {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - 4);
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  std::string bytes_;
};

// Throws PeerError when the message is shorter than what is read from it.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message.substr(1)), kind_(message[0]) {}
  std::uint8_t kind() const { return static_cast<std::uint8_t>(kind_); }
  std::uint64_t number();
  int integer() { return static_cast<int>(number()); }
  std::string text();

 private:
  std::string_view take(std::size_t size);
  std::string_view rest_;
  char kind_;
};

// Takes the first whole message off `buffer`. Throws PeerError when the bytes cannot be a message.
std::optional<std::string> take_message(std::string& buffer);

// Reads what is there into `buffer`, which is not read into once it holds `most` bytes. False when
// the other end has closed or was reset.
bool receive(const Socket& socket, std::string& buffer, std::size_t max_bytes = std::string::npos);
// Writes as much as fits and removes it from `buffer`. False when the connection is gone.
bool transmit(const Socket& socket, std::string& buffer);

}  // namespace trainer::cluster
