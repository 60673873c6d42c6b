// SIGINT, SIGTERM, and SIGUSR1 and SIGUSR2, which batch systems send ahead of a time limit: the
// first asks the loop to save and stop, a second SIGINT ends the process at once.
#pragma once

namespace trainer::train {

// Installs the handlers, and restores the previous ones when destroyed.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // The name of the signal that came ("SIGTERM"), or null.
  static const char* received();
};

}  // namespace trainer::train
