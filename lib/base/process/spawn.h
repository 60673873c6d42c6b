// Starts programs as child processes.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace trainer {

struct SpawnOptions {
  std::vector<std::string> command;      // the path of the program, then its arguments
  std::vector<std::string> environment;  // "NAME=value"; nothing else is inherited
  sigset_t signals{};                    // the signals that are blocked in the child
  // The descriptors of the child's standard output and error; -1: those of this process.
  int output = -1, errors = -1;
  std::vector<int> cores{};  // the processors that the child may use; empty: those of this process
};

// Starts the program with an empty standard input, in a process group of its own, so that Ctrl-C
// reaches this process alone, which may pass it on. The kernel kills the child when the thread that
// called this function ends. The child inherits descriptors that are open without FD_CLOEXEC.
// Returns the process id of the child, for which the caller waits. If the program cannot be
// executed, the child ends with code 127 and a line on its standard error. Throws DeviceError when
// no process can be started.
pid_t spawn(const SpawnOptions& options);

}  // namespace trainer
