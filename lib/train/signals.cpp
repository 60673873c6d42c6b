#include "train/signals.h"

#include <unistd.h>

#include <csignal>

namespace trainer::train {
namespace {

constexpr struct {
  int number;
  const char* name;
} kWatched[] = {
    {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}};

volatile std::sig_atomic_t last_signal = 0;

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
