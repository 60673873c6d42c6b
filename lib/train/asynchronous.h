// The tasks of a job with parameter servers, but for the chief: a worker and a server.
#pragma once

#include <functional>
#include <string>

#include "hooks/hooks.h"
#include "train/parameter_servers.h"

namespace trainer::train {

// A worker that is not the chief: gives gradients until the job is over or a signal comes. The
// engine is as a new run begins, weights imported. Returns kDone or kInterrupted.
hooks::FinishReason work(const config::Config& config, const data::Datasets& data,
                         engine::Replicas& engine, ParameterServers& servers);

// A ps task, until the job is over; returns as work() does. A signal asks the chief to save and to
// end the job. Throws PeerError when the chief goes or does not come. `say`: who comes and goes.
hooks::FinishReason serve(const config::Config& config, const cluster::Identity& who,
                          const std::function<void(const std::string&)>& say);

}  // namespace trainer::train
