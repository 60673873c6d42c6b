// Requests over HTTP, with libcurl.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"

namespace trainer::http {

struct Request {
  std::string method = "GET";
  std::string url;                   // http or https
  std::vector<std::string> headers;  // "Content-Type: application/json"
  std::string body;                  // sent with every method but GET
  std::int64_t first_byte = 0;       // the first wanted byte of the answer's body
  // Follows redirects of a request without a body, but none from https to http.
  bool follows_redirects = false;
  std::string wanted_header = {};  // see Response::header
  // The transfer ends where it takes longer, or brings nothing for as long; 0 for no limit.
  std::chrono::seconds max_duration{0}, max_stall{0};
  // Receives the body of an answer that is not an error, in pieces, in place of Response::body.
  // The transfer ends where it returns false.
  std::function<bool(std::string_view piece)> receive = {};
  // Called as bytes arrive, and about once per second, with the bytes of the answer's body (0 if
  // that is not known yet). The transfer ends where it returns false.
  std::function<bool(std::int64_t total)> proceed = {};
};

struct Response {
  long status = 0;    // 0 without an answer
  std::string body;   // up to 1 MB
  std::string error;  // the reason for no whole answer; "" where one came, with any status
  // The value of Request::wanted_header in the first answer that has it, which may be a redirect.
  std::string header;
  // Another try may succeed: the connection broke, or the server has failed or is overloaded.
  bool is_transient = false;
  // The server does not continue at Request::first_byte.
  bool has_no_range = false;
};

// The name and password, or the token, that a server asks for. Both may be empty. They are not sent
// to another host or port that the server redirects to.
struct Credentials {
  std::string user = {}, password = {};
  std::string token = {};  // sent if there is no user
};

struct ClientOptions {
  Path certificates = {};  // a file; empty for libcurl's own choice
  Credentials credentials = {};
};

// Keeps its connection open between requests. One thread at a time.
class Client {
 public:
  // Throws DataError if libcurl cannot be started.
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // A failure is a part of the response.
  Response send(const Request& request);

 private:
  struct Handle;
  ClientOptions options_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace trainer::http
