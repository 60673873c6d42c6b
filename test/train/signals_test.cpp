#include "train/signals.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

namespace trainer::train {

TEST_CASE("SignalWatch: each signal has its name until the next watch") {
  std::signal(SIGHUP, SIG_DFL);  // nohup has it ignored
  for (const auto& [number, name] :
       {std::pair{SIGINT, "SIGINT"}, std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGHUP, "SIGHUP"},
        std::pair{SIGUSR1, "SIGUSR1"}, std::pair{SIGUSR2, "SIGUSR2"}}) {
    const SignalWatch watch;
    CHECK(SignalWatch::received() == nullptr);
    std::raise(number);
    REQUIRE(SignalWatch::received() != nullptr);
    CHECK(std::string(SignalWatch::received()) == name);
  }
}

TEST_CASE("SignalWatch: the handlers before it are restored when it is destroyed") {
  struct sigaction before {
  }, after{};
  REQUIRE(sigaction(SIGTERM, nullptr, &before) == 0);
  { const SignalWatch watch; }
  REQUIRE(sigaction(SIGTERM, nullptr, &after) == 0);
  CHECK((after.sa_handler == before.sa_handler));
}

namespace {

// Returns the exit code of a child that raises the signal after `prepare`; -1 if a signal ended it.
template <class Prepare>
int code_after(int signal, const Prepare& prepare) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    const StartupSignals start;
    prepare();
    std::raise(signal);
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("startup signals: each ends the process with exit code 75 before and after the loop") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    CHECK(code_after(signal, [] {}) == 75);
    CHECK(code_after(signal, [] { const SignalWatch loop; }) == 75);
  }
  // A SignalWatch catches the signal so that the loop can save, and SIGHUP stays ignored.
  CHECK(code_after(SIGTERM, [] { static const SignalWatch loop; }) == 1);
  std::signal(SIGHUP, SIG_IGN);
  CHECK(code_after(SIGHUP, [] {}) == 1);
  std::signal(SIGHUP, SIG_DFL);
  struct sigaction before {
  }, after{};
  REQUIRE(sigaction(SIGTERM, nullptr, &before) == 0);
  { const StartupSignals start; }
  REQUIRE(sigaction(SIGTERM, nullptr, &after) == 0);
  CHECK((after.sa_handler == before.sa_handler));
}

TEST_CASE("SignalWatch: SIGHUP that nohup ignores stays ignored") {
  std::signal(SIGHUP, SIG_IGN);
  {
    const SignalWatch watch;
    std::raise(SIGHUP);
    CHECK(SignalWatch::received() == nullptr);
  }
  struct sigaction now {};
  REQUIRE(sigaction(SIGHUP, nullptr, &now) == 0);
  CHECK((now.sa_handler == SIG_IGN));
  std::signal(SIGHUP, SIG_DFL);
}

TEST_CASE("SignalWatch: a closed pipe is a write error, a closed output counts as SIGHUP") {
  const SignalWatch watch;
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  CHECK(::write(ends[1], "x", 1) == -1);
  CHECK(errno == EPIPE);
  ::close(ends[1]);
  CHECK(SignalWatch::received() == nullptr);
  SignalWatch::output_closed();
  REQUIRE(SignalWatch::received() != nullptr);
  CHECK(std::string(SignalWatch::received()) == "SIGHUP");
}

TEST_CASE("SignalWatch: Ctrl-C prints a message at once if asked for") {
  for (const bool acknowledge : {false, true}) {
    int ends[2] = {};
    REQUIRE(::pipe(ends) == 0);
    const int kept = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    {
      const SignalWatch watch(acknowledge);
      std::raise(SIGINT);
    }
    ::dup2(kept, STDERR_FILENO);
    ::close(kept);
    ::close(ends[1]);
    char text[200] = {};
    const auto length = ::read(ends[0], text, sizeof text - 1);
    ::close(ends[0]);
    CHECK(std::string(text) ==
          (acknowledge ? "\nstopping after this step; Ctrl-C again ends without saving\n" : ""));
    CHECK(length >= 0);
  }
}

}  // namespace trainer::train
