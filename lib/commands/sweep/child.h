// A process that is waited for, and whose output is read as it comes.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/files/files.h"

namespace trainer::commands {

struct ChildOptions {
  std::vector<std::string> command;                // program and arguments
  std::map<std::string, std::string> environment;  // complete; nothing is inherited
  Path errors;                                     // file for standard error, which is appended to
  std::function<void(const std::string& line)> on_line;  // receives the lines of standard output
};

struct ChildResult {
  int code = 0;            // exit code, 128 + N when signal N ended it
  bool signalled = false;  // this process was asked to stop meanwhile
};

// Holds SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 back from this thread for as long as it lives,
// so that none is lost that comes between two children.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  // Returns true if a signal has arrived since the last call.
  bool take();
  // Returns the signals that were blocked before this guard, except those that it holds back.
  sigset_t unblocked() const;

 private:
  sigset_t old_{};
};

// Runs it to its end. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 that come to this process are
// passed on; when this process dies the kernel kills the child. Call it from one thread. Throws
// DeviceError when no process can be started.
ChildResult run_child(const ChildOptions& options);

}  // namespace trainer::commands
