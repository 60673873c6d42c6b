#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

namespace trainer::train {
namespace {

constexpr struct {
  int number;
  const char* name;
} kWatched[] = {{SIGINT, "SIGINT"},
                {SIGTERM, "SIGTERM"},
                {SIGHUP, "SIGHUP"},
                {SIGUSR1, "SIGUSR1"},
                {SIGUSR2, "SIGUSR2"}};

constexpr char kAnswer[] = "\nstopping after this step; Ctrl-C again ends without saving\n";

// Lock-free, so that a handler may use it; several loops of one process read it.
std::atomic<int> last_signal{0};
std::atomic<bool> answers{false};
static_assert(std::atomic<int>::is_always_lock_free);

// Only async-signal-safe calls here.
void handle(int signal) {
  if (signal == SIGINT && last_signal == SIGINT) ::_exit(128 + SIGINT);
  last_signal = signal;
  if (signal != SIGINT || !answers) return;
  const int error = errno;
  const ssize_t written = ::write(STDERR_FILENO, kAnswer, sizeof kAnswer - 1);
  static_cast<void>(written);  // who closed it does not want to know
  errno = error;
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

SignalWatch::SignalWatch(bool acknowledge) {
  last_signal = 0;
  answers = acknowledge;
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  for (const auto& signal : kWatched) {
    if (signal.number == SIGHUP && is_ignored(SIGHUP)) continue;
    ::sigaction(signal.number, &action, nullptr);
  }
}

SignalWatch::~SignalWatch() {
  for (const auto& signal : kWatched) {
    if (!is_ignored(signal.number)) std::signal(signal.number, SIG_DFL);
  }
}

const char* SignalWatch::received() {
  for (const auto& signal : kWatched) {
    if (last_signal == signal.number) return signal.name;
  }
  return nullptr;
}

void SignalWatch::output_closed() { last_signal = SIGHUP; }

}  // namespace trainer::train
