#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "base/error.h"
#include "base/files/output_buffer.h"

namespace trainer::train {
namespace {

struct Watched {
  int number;
  const char* name;
};
constexpr std::array<Watched, kWatchedSignals> kWatched{{{SIGINT, "SIGINT"},
                                                         {SIGTERM, "SIGTERM"},
                                                         {SIGHUP, "SIGHUP"},
                                                         {SIGUSR1, "SIGUSR1"},
                                                         {SIGUSR2, "SIGUSR2"}}};

constexpr std::string_view kAnswer =
    "\nstopping after this step; Ctrl-C again ends without saving\n";

// The variable is lock-free, so that a handler may use it. Several loops of one process read it.
std::atomic<int> last_signal{0};
std::atomic<bool> answers{false};
static_assert(std::atomic<int>::is_always_lock_free);

// A handler may make async-signal-safe calls only.
void handle(int signal) {
  if (signal == SIGINT && last_signal == SIGINT) ::_exit(128 + SIGINT);
  last_signal = signal;
  if (signal != SIGINT || !answers) return;
  const int error = errno;
  write_without_wait(STDERR_FILENO, kAnswer);
  errno = error;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

constexpr std::string_view kNothingToSave =
    "stopped by a signal while no step was running: nothing had to be saved\n";

void end_start_up(int) {
  write_without_wait(STDERR_FILENO, kNothingToSave);
  ::_exit(kExitInterrupted);
}

std::array<struct sigaction, kWatchedSignals> install(void (*handler)(int)) {
  std::array<struct sigaction, kWatchedSignals> previous{};
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i].number, nullptr, &previous[i]);
    if (kWatched[i].number == SIGHUP && is_ignored(SIGHUP)) continue;
    ::sigaction(kWatched[i].number, &action, nullptr);
  }
  return previous;
}

void restore(const std::array<struct sigaction, kWatchedSignals>& previous) {
  for (std::size_t i = 0; i < kWatched.size(); ++i) {
    ::sigaction(kWatched[i].number, &previous[i], nullptr);
  }
}

}  // namespace

StartupSignals::StartupSignals() : previous_(install(end_start_up)) {}

StartupSignals::~StartupSignals() { restore(previous_); }

SignalWatch::SignalWatch(bool acknowledge) {
  last_signal = 0;
  answers = acknowledge;
  std::signal(SIGPIPE, SIG_IGN);
  previous_ = install(handle);
}

SignalWatch::~SignalWatch() { restore(previous_); }

const char* SignalWatch::received() {
  for (const auto& signal : kWatched) {
    if (last_signal == signal.number) return signal.name;
  }
  return nullptr;
}

void SignalWatch::output_closed() { last_signal = SIGHUP; }

}  // namespace trainer::train
