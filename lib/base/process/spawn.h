// Starts programs as child processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "base/process/environment.h"

namespace trainer {

struct SpawnOptions {
  std::vector<std::string> command;  // the path of the program, then its arguments
  Environment environment;           // nothing else is inherited
  sigset_t signals{};                // the signals that are blocked in the child
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

// Waits for the end of a child of spawn(). Returns its exit code, or 128 + N when signal N ended
// it. After `limit` it kills the process group of the child and returns nothing. It does not wait
// long for the end of what a driver keeps alive.
std::optional<int> wait_or_kill(pid_t child, std::chrono::milliseconds limit);

}  // namespace trainer
