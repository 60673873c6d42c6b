#include "http/client.h"

#include <doctest/doctest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "support/loopback_server.h"

namespace trainer::http {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Echo {
  test::LoopbackServer server{"test/http/server.py", {}};

  Request request(const std::string& path) const {
    Request request;
    request.url = server.url() + path;
    return request;
  }
  // Returns what the server received from a client with these credentials.
  Json receive(const Credentials& credentials) const {
    return Json::parse(Client({{}, credentials}).send(request("/")).body);
  }
};

}  // namespace

TEST_CASE("http::Client: the server receives the body and headers of a PUT") {
  const Echo echo;
  Request request = echo.request("/a%20b");
  request.method = "PUT";
  request.headers = {"Content-Type: text/plain"};
  request.body = std::string("zero \0 and \xff", 12);
  const Response response = Client().send(request);
  CHECK(response.error.empty());
  CHECK(response.status == 200);
  const Json received = Json::parse(response.body);
  CHECK(received["method"] == "PUT");
  CHECK(received["path"] == "/a%20b");
  CHECK(received["headers"]["Content-Type"] == "text/plain");
  CHECK_FALSE(received["headers"].contains("Authorization"));
  CHECK(received["body"].get<std::string>().size() == 13);  // 0xff takes two bytes in UTF-8
}

TEST_CASE("http::Client uses one connection for several requests") {
  const Echo echo;
  Client client;
  const Json first = Json::parse(client.send(echo.request("/1")).body);
  Request post = echo.request("/2");
  post.method = "POST";
  post.body = "x";
  const Json second = Json::parse(client.send(post).body);
  const Json third = Json::parse(client.send(echo.request("/3")).body);
  CHECK(second["body"] == "x");
  CHECK(third["method"] == "GET");
  CHECK(third["body"] == "");
  CHECK(second["port"] == first["port"]);
  CHECK(third["port"] == first["port"]);
}

TEST_CASE("http::Client sends credentials as Basic for a user and else as Bearer") {
  const Echo echo;
  CHECK(echo.receive({"ann", "p:w", "t"})["headers"]["Authorization"] == "Basic YW5uOnA6dw==");
  CHECK(echo.receive({"", "", "t"})["headers"]["Authorization"] == "Bearer t");
}

TEST_CASE("http::Client returns an error status with its body") {
  const Echo echo;
  Client client;
  for (const auto& [status, is_transient] :
       std::initializer_list<std::pair<int, bool>>{{400, false},
                                                   {401, false},
                                                   {404, false},
                                                   {408, true},
                                                   {429, true},
                                                   {500, true},
                                                   {503, true}}) {
    CAPTURE(status);
    const Response response = client.send(echo.request("/status/" + std::to_string(status)));
    CHECK(response.error.empty());
    CHECK(response.status == status);
    CHECK(response.body == "the reason");
    CHECK(response.is_transient == is_transient);
  }
}

TEST_CASE("http::Client follows a redirect if the request allows it") {
  const Echo echo;
  Request request = echo.request("/redirect");
  CHECK(Client().send(request).status == 307);
  request.follows_redirects = true;
  CHECK(Json::parse(Client().send(request).body)["path"] == "/elsewhere");
}

TEST_CASE("http::Client does not follow a redirect from https to http") {
  const TemporaryFolder folder;
  const test::LoopbackServer secure("test/http/server.py", {folder.path().string()});
  const Echo echo;
  const std::string port = echo.server.url().substr(echo.server.url().rfind(':') + 1);
  Request request;
  request.url = "https" + secure.url().substr(std::string("http").size()) + "/redirect/" + port;
  request.follows_redirects = true;
  const ClientOptions options{folder.path() / "certificate.pem"};
  const Response response = Client(options).send(request);
  CHECK(response.status == 307);
  CHECK(response.error.find("http") != std::string::npos);
  request.url = request.url.substr(0, request.url.find("/redirect")) + "/redirect";
  CHECK(Json::parse(Client(options).send(request).body)["path"] == "/elsewhere");
}

TEST_CASE("http::Client returns the first megabyte of a large answer") {
  const Echo echo;
  const Response response = Client().send(echo.request("/large"));
  CHECK(response.error.empty());
  CHECK(response.body.size() == 1 << 20);
}

TEST_CASE("http::Client: a request ends at max_duration, or if proceed returns false") {
  const Echo echo;
  Request request = echo.request("/slow");
  const Clock::time_point start = Clock::now();
  SUBCASE("its time is over") { request.max_duration = std::chrono::seconds(1); }
  SUBCASE("proceed returns false") {
    request.proceed = [](std::int64_t) { return false; };
  }
  const Response response = Client().send(request);
  CHECK_FALSE(response.error.empty());
  CHECK(response.status == 0);
  CHECK(Clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("http::Client returns an error without a status where there is no server") {
  std::string url;
  {
    const Echo echo;
    url = echo.server.url();
  }
  Request request;
  request.url = url;
  const Response response = Client().send(request);
  CHECK(response.status == 0);
  CHECK_FALSE(response.error.empty());
}

TEST_CASE("http::Client does not open another scheme") {
  Request request;
  request.url = "file:///etc/hostname";
  const Response response = Client().send(request);
  CHECK_FALSE(response.error.empty());
  CHECK(response.body.empty());
}

}  // namespace trainer::http
