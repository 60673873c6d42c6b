// The ranks of a job as processes of this host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainer::cluster {

struct LaunchOptions {
  int workers = 1;                   // chief included
  int servers = 0;                   // ps tasks, for parallel.strategy: parameter_server
  bool evaluator = false;            // a task that evaluates the checkpoints as they come
  std::vector<std::string> command;  // program and arguments, the same for all
  // How long the other ranks may take to end by themselves after one has failed.
  std::chrono::milliseconds patience{5'000};
  std::chrono::milliseconds after_term{10'000};  // and then from SIGTERM to SIGKILL
};

// Starts the workers with torchrun's variables, a free port of 127.0.0.1 for rank 0 and an equal
// part of the cores that this process may use, and waits for all.
//
// With servers or an evaluator the processes are tasks of a TF_CONFIG instead, chief, workers, ps
// and evaluator, each with an address of its own on 127.0.0.1; of the cores, chief and workers get
// their parts, the others all. A worker or evaluator that fails is no failure of the job then.
//
// Rank 0 has this process's standard output and error; what the others print comes line by line on
// standard error behind "[rank N] " or "[ps:0] ". SIGINT, SIGTERM, SIGHUP, SIGUSR1 and
// SIGUSR2 are passed on. When a worker has failed, stopped ones are continued at once, and the
// others get SIGTERM after `patience` and SIGKILL after `after_term`; when this process dies, the
// kernel kills them.
//
// All get the secret of this process (TRAINER_SECRET), or one that is drawn.
//
// Returns 0, or the exit code of the worker that was the first to fail (of several found at once,
// the lowest rank's), 128 + N when signal N ended it; kExitDevice, with which the others follow it,
// only when no worker ended with another. Throws ConfigError or DeviceError.
int launch(const LaunchOptions& options);

}  // namespace trainer::cluster
