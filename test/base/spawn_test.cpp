#include "base/process/spawn.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/threads/cores.h"

namespace trainer::spawn_test {
namespace {

struct Ended {
  std::string output;
  int code = 0;
};

// Runs the program to its end.
Ended run_program(SpawnOptions options) {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  options.output = options.errors = pipe[1];
  std::fflush(nullptr);  // the thread sanitizer writes the child's copy of the buffers at its end
  const pid_t child = spawn(options);
  ::close(pipe[1]);
  Ended ended;
  char bytes[256];
  for (ssize_t got; (got = ::read(pipe[0], bytes, sizeof bytes)) > 0;) {
    ended.output.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  ended.code = WEXITSTATUS(status);
  return ended;
}

}  // namespace

TEST_CASE(
    "spawn starts a program with the given environment, an empty input and its own process group") {
  const Ended ended = run_program(
      {{"/bin/sh", "-c",
        "read -r line || echo \"$NAME $HOME\"; cut -d ' ' -f 5 /proc/$$/stat; echo $$; exit 3"},
       {{"NAME", "value"}, {"PATH", "/usr/bin:/bin"}}});
  CHECK(ended.code == 3);
  const std::size_t first = ended.output.find('\n'), second = ended.output.find('\n', first + 1);
  CHECK(ended.output.substr(0, first) == "value ");
  CHECK(ended.output.substr(first + 1, second - first) == ended.output.substr(second + 1));
}

TEST_CASE("spawn sets the blocked signals and the processors of the child") {
  SpawnOptions options{{"/bin/grep", "-E", "^(SigBlk|Cpus_allowed_list)", "/proc/self/status"},
                       {{"PATH", "/usr/bin:/bin"}}};
  sigemptyset(&options.signals);
  sigaddset(&options.signals, SIGUSR2);
  options.cores = {available_cores().front()};
  const std::string output = run_program(options).output;
  CHECK(output.find("SigBlk:\t0000000000000800\n") != std::string::npos);
  CHECK(output.find(concat("Cpus_allowed_list:\t", options.cores[0], '\n')) != std::string::npos);
}

TEST_CASE("spawn: a file that is not a program ends with code 127 and a message") {
  const Ended ended = run_program({{"/dev/null"}, {}});
  CHECK(ended.code == 127);
  CHECK(ended.output == "error: cannot start the program\n");
}

TEST_CASE("wait_or_kill returns the code of a child, or that of the signal that ended it") {
  const auto start = [](const char* script) {
    std::fflush(nullptr);
    return spawn({{"/bin/sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}}});
  };
  constexpr std::chrono::seconds kLimit(60);
  CHECK(wait_or_kill(start("exit 5"), kLimit) == 5);
  CHECK(wait_or_kill(start("kill -TERM $$"), kLimit) == 128 + SIGTERM);
}

TEST_CASE("wait_or_kill ends the process group of a child after the limit") {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  SpawnOptions options{{"/bin/sh", "-c", "sleep 1000 & echo; wait"}, {{"PATH", "/usr/bin:/bin"}}};
  options.output = pipe[1];
  std::fflush(nullptr);
  const pid_t child = spawn(options);
  ::close(pipe[1]);
  char byte = 0;
  REQUIRE(::read(pipe[0], &byte, 1) == 1);  // the shell has started sleep
  CHECK_FALSE(wait_or_kill(child, std::chrono::milliseconds(200)).has_value());
  CHECK(::read(pipe[0], &byte, 1) == 0);  // sleep, which had the pipe, too, has ended
  ::close(pipe[0]);
}

}  // namespace trainer::spawn_test
