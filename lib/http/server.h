// Answers GET requests, such as those of a monitoring system.
// Reasons: lib/decisions/hooks.md#metrics-are-served-without-a-library.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/files/descriptor.h"

namespace trainer::http {

struct Page {
  int status = 200;
  std::string body;  // plain text
};

// Has one thread, which answers one request after the other and closes each connection. A request
// of more than kMaxRequestBytes, or of another method than GET, is rejected. A client that
// takes longer than two seconds is disconnected.
class Server {
 public:
  static constexpr std::size_t kMaxRequestBytes = 8192;
  // Returns the page of a path, which has no query. Called by the server's thread.
  using Answer = std::function<Page(std::string_view path)>;

  // Listens on a port of the host, which is a name or a numeric address of this machine; port 0 is
  // one that the kernel chooses. Throws DeviceError.
  Server(const std::string& host, int port, Answer answer);
  ~Server();  // waits for the client that is served
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }

 private:
  void run() const;

  Answer answer_;
  Descriptor listener_;
  int port_ = 0;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace trainer::http
