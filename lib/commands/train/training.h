// Trains in one process, alone or as a part of a job.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/identity.h"
#include "cluster/rendezvous.h"
#include "commands/train/command.h"
#include "data/open.h"
#include "engine/engine.h"
#include "graph/graph.h"
#include "hooks/hooks.h"

namespace trainer::commands {

// What a process of a job trains. All that it refers to must outlive the training.
struct Training {
  const TrainArguments& arguments;
  const config::Config& config;
  const data::Datasets& data;
  const graph::Graph& model;
  bool has_log_every = false;  // the config or a flag gives run.log_every
  const Context& context;
  const backend::Platform& platform;
};

// Trains in a process alone.
hooks::FinishReason train_alone(const Training& training);
// Trains in step with the other ranks, to which this one has connected.
hooks::FinishReason train_in_step(const Training& training,
                                  std::shared_ptr<cluster::Rendezvous> rendezvous);
// Trains as the chief or as a worker of a job with parameter servers.
hooks::FinishReason train_as_chief_or_worker(const Training& training,
                                             const cluster::Identity& who);

// Returns the place among the processes of this machine that the launcher or the cluster has set,
// before a rendezvous.
engine::LocalPlace find_place(const cluster::Identity& who);
// Returns a function that prints a line to `context.out`, or nothing with --quiet or --json. The
// stream must outlive it.
std::function<void(const std::string&)> make_printer(const TrainArguments& arguments,
                                                     const Context& context);

}  // namespace trainer::commands
