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
  // The descriptors of its standard output and error; -1: those of this process.
  int output = -1, errors = -1;
  std::vector<int> cores{};  // the processors that it may use; none: those of this process
};

// Starts the program with an empty standard input, in a process group of its own, so that Ctrl-C
// reaches this process alone, which may pass it on. The kernel kills the child when the thread that
// called this ends. Descriptors that are open without FD_CLOEXEC are inherited. Returns the process
// id; the caller waits for it. A program that cannot be executed ends with code 127 and a line on
// its standard error. Throws DeviceError when no process can be started.
pid_t spawn(const SpawnOptions& options);

}  // namespace trainer
