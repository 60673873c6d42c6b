#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace trainer::train {
namespace {

constexpr struct {
  int number;
  const char* name;
} kWatched[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

// Lock-free, so that a handler may use it; several loops of one process read it.
std::atomic<int> last_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Only async-signal-safe calls here.
void handle(int signal) {
  if (signal == SIGINT && last_signal == SIGINT) ::_exit(128 + SIGINT);
  last_signal = signal;
}

}  // namespace

SignalWatch::SignalWatch() {
  last_signal = 0;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  for (const auto& signal : kWatched) ::sigaction(signal.number, &action, nullptr);
}

SignalWatch::~SignalWatch() {
  for (const auto& signal : kWatched) std::signal(signal.number, SIG_DFL);
}

const char* SignalWatch::received() {
  for (const auto& signal : kWatched) {
    if (last_signal == signal.number) return signal.name;
  }
  return nullptr;
}

}  // namespace trainer::train
