// A server on the loopback device: a Python script of the tests that prints its port first.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/process/process.h"
#include "base/process/spawn.h"
#include "support/source_files.h"

namespace trainer::test {

class LoopbackServer {
 public:
  // `script` is a path in the repository.
  LoopbackServer(const std::string& script, const std::vector<std::string>& arguments) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    SpawnOptions options;
    options.command = {"/usr/bin/env", "python3", source_file(script)};
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.environment = environment_variables();
    sigemptyset(&options.signals);
    options.output = ends[1];
    process_ = spawn(options);
    ::close(ends[1]);
    std::string port;
    char digit = 0;
    while (::read(ends[0], &digit, 1) == 1 && digit != '\n') port += digit;
    ::close(ends[0]);
    REQUIRE(!port.empty());
    url_ = concat("http://127.0.0.1:", port);
    ::setenv("no_proxy", "127.0.0.1", 1);
  }
  ~LoopbackServer() { stop(); }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  // "http://127.0.0.1:12345"
  const std::string& url() const { return url_; }
  void stop() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  std::string url_;
  pid_t process_ = -1;
};

}  // namespace trainer::test
