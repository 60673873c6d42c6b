// SIGINT, SIGTERM, SIGHUP, and SIGUSR1 and SIGUSR2, which batch systems send ahead of a time limit:
// the first asks the loop to save and stop, a second SIGINT ends the process at once. A write to a
// pipe that nobody reads fails instead of ending the process, then and afterwards.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace trainer::train {

// The number of signals that the classes below handle.
inline constexpr std::size_t kWatchedSignals = 5;

// Ends the process at once with kExitInterrupted on each signal of SignalWatch: before the loop
// there is nothing to save, and listing or drawing data may take long. Restores the previous
// handlers when destroyed. SIGHUP stays ignored if it is (nohup).
class StartupSignals {
 public:
  StartupSignals();
  ~StartupSignals();
  StartupSignals(const StartupSignals&) = delete;
  StartupSignals& operator=(const StartupSignals&) = delete;

 private:
  std::array<struct sigaction, kWatchedSignals> previous_;
};

// Installs the handlers, and restores the previous ones when destroyed. SIGHUP stays ignored where
// it is (nohup).
class SignalWatch {
 public:
  // `acknowledge`: whether SIGINT is answered on standard error at once.
  explicit SignalWatch(bool acknowledge = false);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // The name of the signal that came ("SIGTERM"), or null.
  static const char* received();
  // As if the signal had come that a closed terminal sends: nobody reads the output any more.
  static void output_closed();

 private:
  std::array<struct sigaction, kWatchedSignals> previous_;
};

}  // namespace trainer::train
