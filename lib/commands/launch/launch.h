// Starts the ranks of a job as processes of this host.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "commands/launch/job_file.h"

namespace trainer::cluster {
class Network;
}

namespace trainer::commands {

struct LaunchOptions {
  int workers = 1;                   // chief included
  int servers = 0;                   // ps tasks, for parallel.strategy: parameter_server
  bool evaluator = false;            // a task that evaluates the checkpoints as they come
  std::vector<std::string> command;  // program and arguments, the same for all
  // The time that the other ranks may take to end by themselves after one has failed.
  std::chrono::milliseconds patience{5'000};
  std::chrono::milliseconds after_term{10'000};  // the time from SIGTERM to SIGKILL after it
  // The number of restarts, with `restart_command`, of a job whose processes crash, are killed or
  // lose each other. The wait before a restart doubles from `first_wait` up to a minute. A job that
  // fails otherwise would fail again, and is not restarted.
  int restarts = 0;
  std::vector<std::string> restart_command;
  std::chrono::milliseconds first_wait{1'000};
  JobFileOptions job_file{};  // with a scheduler, execute() prints the file of the job
  // The clock and the waiting; null stands for those of the system.
  std::shared_ptr<const cluster::Network> network{};
};

// Starts the workers with torchrun's variables, a free port of 127.0.0.1 for rank 0 and an equal
// part of the cores that this process may use, and waits for all.
//
// With servers or an evaluator the processes are tasks of a TF_CONFIG instead: chief, workers, ps
// and evaluator, each with its own port of 127.0.0.1. Chief and workers divide the cores; ps and
// evaluator may use all. A worker or evaluator that fails does not fail the job then.
//
// Rank 0 inherits standard output and error; lines of the other processes go to standard error with
// the prefix "[rank N] " or "[ps:0] ". SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on,
// and SIGQUIT, on which ranks print what they do.
// When a worker has failed, stopped processes are continued at once, and all that remain get
// SIGTERM after `patience` and SIGKILL after `after_term`. When this process dies, the kernel kills
// them.
//
// All processes get the secret of this process (TRAINER_SECRET), or a random one.
//
// Returns 0, or the exit code of the first worker that failed (the lowest rank of several found at
// once), 128 + N when signal N ended it. kExitDevice, with which other workers report the failure,
// counts only when no worker ended with another code. Of several starts, the code of the last.
// Throws ConfigError or DeviceError.
int launch(const LaunchOptions& options);

// Starts this program with the command, which has its arguments alone, such as train CONFIG, as the
// processes of a job; see launch(). Or prints a file for a cluster that does. Throws ConfigError
// for a command that several processes do not run together.
int execute(LaunchOptions options);

}  // namespace trainer::commands
