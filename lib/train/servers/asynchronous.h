// Runs the tasks of a job with parameter servers except the chief: workers and servers.
#pragma once

#include <functional>
#include <string>

#include "hooks/hooks.h"
#include "train/servers/parameter_servers.h"

namespace trainer::train {

// Runs a worker other than the chief until the job ends (kDone) or a signal arrives (kInterrupted).
// The engine must be initialised as for a new run, with imported weights.
hooks::FinishReason work(const config::Config& config, const data::Datasets& data,
                         engine::Engine& engine, ParameterServers& servers);

// Runs a ps task; returns as work() does. A signal asks the chief to save and to end the job.
// Throws PeerError if the chief has gone or does not connect. `say` receives a line for each task
// that joins or leaves.
hooks::FinishReason serve(const config::Config& config, const cluster::Identity& who,
                          const std::function<void(const std::string&)>& say);

}  // namespace trainer::train
