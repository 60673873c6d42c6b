#include "http/server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/files/descriptor.h"
#include "http/client.h"
#include "support/contains.h"
#include "support/no_further_file.h"

namespace trainer::http {
namespace {

using trainer::test::contains;

struct PathServer {
  Server server{"127.0.0.1", 0, [](std::string_view path) { return Page{200, std::string(path)}; }};

  Descriptor connect() const {
    Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connect_to(socket);
    return socket;
  }
  void connect_to(const Descriptor& socket) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  // Returns the answer to these bytes; "" if the server closes the connection without one.
  std::string ask(const std::string& request) const { return ask(connect(), request); }
  std::string ask(const Descriptor& socket, const std::string& request) const {
    REQUIRE(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
    std::string answer;
    char piece[512];
    for (ssize_t count; (count = ::recv(socket.get(), piece, sizeof piece, 0)) > 0;) {
      answer.append(piece, static_cast<std::size_t>(count));
    }
    return answer;
  }
};

// Returns a request of this many bytes.
std::string make_request(std::size_t bytes) {
  const std::string begin = "GET /large HTTP/1.1\r\nA: ", end = "\r\n\r\n";
  return begin + std::string(bytes - begin.size() - end.size(), 'a') + end;
}

}  // namespace

TEST_CASE("http::Server answers GET with the page of the path") {
  const PathServer echo;
  Request request;
  request.url = concat("http://127.0.0.1:", echo.server.port(), "/metrics?a=b");
  const Response response = Client().send(request);
  CHECK(response.status == 200);
  CHECK(response.body == "/metrics");
  const std::string answer = echo.ask("GET /a HTTP/1.1\r\n\r\n");
  CHECK(contains(answer, "HTTP/1.1 200 \r\n"));
  CHECK(contains(answer, "\r\nContent-Length: 2\r\nConnection: close\r\n\r\n/a"));
}

TEST_CASE("http::Server rejects other methods and requests above 8 KiB") {
  const PathServer echo;
  CHECK(contains(echo.ask("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), " 405 "));
  CHECK(contains(echo.ask("HEAD /metrics HTTP/1.1\r\n\r\n"), " 405 "));
  CHECK(contains(echo.ask("\r\n\r\n"), " 405 "));
  CHECK(contains(echo.ask(make_request(Server::kMaxRequestBytes)), "\r\n\r\n/large"));
  CHECK(contains(echo.ask(make_request(Server::kMaxRequestBytes + 1)), " 431 "));
  CHECK(contains(echo.ask(make_request(100'000)), " 431 "));
}

TEST_CASE("http::Server goes on after clients that send nothing or leave") {
  const PathServer echo;
  {
    const Descriptor left = echo.connect();
    REQUIRE(::send(left.get(), "GET ", 4, MSG_NOSIGNAL) == 4);
  }
  const Descriptor silent = echo.connect();
  CHECK(contains(echo.ask("GET /a HTTP/1.0\r\n\r\n"), "/a"));  // after the time of the silent one
}

TEST_CASE("http::Server waits while the process may not open more files") {
  const PathServer echo;
  const std::string request = "GET /a HTTP/1.1\r\n\r\n";
  // UBSan needs a file descriptor for its first check of an object of a class, such as the thread.
  CHECK(contains(echo.ask(request), "/a"));
  const Descriptor client = echo.connect();
  const Descriptor waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  double cpu_seconds = 0.0;
  {
    const test::NoFurtherFile limit;
    // The first connection ends, and the second one stays in the queue.
    ::shutdown(client.get(), SHUT_RDWR);
    echo.connect_to(waiting);
    const std::clock_t start = std::clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  CHECK(cpu_seconds < 0.1);
  CHECK(contains(echo.ask(waiting, request), "/a"));
}

TEST_CASE("http::Server reports a port that is in use and a host that is not of this machine") {
  const PathServer echo;
  const Server::Answer answer = [](std::string_view) { return Page{}; };
  CHECK_THROWS_AS(Server("127.0.0.1", echo.server.port(), answer), DeviceError);
  CHECK_THROWS_AS(Server("192.0.2.1", 0, answer), DeviceError);
  CHECK_THROWS_AS(Server("host.invalid", 0, answer), DeviceError);
}

}  // namespace trainer::http
