// The training loop of the chief of a job with parameter servers.
#pragma once

#include "train/loop.h"
#include "train/servers/parameter_servers.h"

namespace trainer::train {

// Trains like train(), but the servers update the parameters and number the steps: workers and this
// process push gradients and do not wait for each other. The job's group must be a group of
// one. `servers` must outlive the call; the caller passes every exception to
// ParameterServers::fail(). If a server has gone, saves what can be saved and throws PeerError.
hooks::Finish train_with_servers(Job& job, ParameterServers& servers);

}  // namespace trainer::train
