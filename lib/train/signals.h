// Handles SIGINT, SIGTERM, SIGHUP, and SIGUSR1 and SIGUSR2, which batch systems send ahead of a
// time limit. The first signal asks the loop to save and stop; a second SIGINT ends the process at
// once. From then on, a write to a pipe without a reader fails instead of ending the process.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace trainer::train {

// The number of signals that the classes below handle.
inline constexpr std::size_t kWatchedSignals = 5;

// Ends the process at once with kExitInterrupted on each signal of SignalWatch: before the loop
// there is nothing to save, and listing or drawing data may take long. Restores the previous
// handlers when destroyed. SIGHUP stays ignored if it was ignored (nohup).
class StartupSignals {
 public:
  StartupSignals();
  ~StartupSignals();
  StartupSignals(const StartupSignals&) = delete;
  StartupSignals& operator=(const StartupSignals&) = delete;

 private:
  std::array<struct sigaction, kWatchedSignals> previous_;
};

// Installs the handlers, and restores the previous ones when destroyed. SIGHUP stays ignored if it
// was ignored (nohup).
class SignalWatch {
 public:
  // With `acknowledge`, SIGINT is confirmed on standard error at once.
  explicit SignalWatch(bool acknowledge = false);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Returns the name of the signal that arrived ("SIGTERM"), or null.
  static const char* received();
  // Acts like the SIGHUP of a closed terminal. Call it when the reader of the output has gone.
  static void output_closed();

 private:
  std::array<struct sigaction, kWatchedSignals> previous_;
};

}  // namespace trainer::train
