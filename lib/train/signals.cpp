#include "train/signals.h"

#include <unistd.h>

#include <csignal>

namespace trainer::train {
namespace {

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
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

SignalWatch::~SignalWatch() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

const char* SignalWatch::received() {
  if (last_signal == SIGINT) return "SIGINT";
  return last_signal == SIGTERM ? "SIGTERM" : nullptr;
}

}  // namespace trainer::train
