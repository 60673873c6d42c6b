// The communicator that a config asks for.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "cluster/communicator.h"
#include "cluster/rendezvous.h"
#include "config/config.h"

namespace trainer::cluster {

// Opens a communicator of all ranks of the rendezvous, for sums of about `bytes`.
// parallel.collective names the algorithm; auto measures, and rank 0 passes a line with the result
// to `say`; nccl, with which GPUs sum the gradients, does not. Collective. Throws as open_gloo()
// does.
std::unique_ptr<Communicator> open_communicator(const std::shared_ptr<Rendezvous>& rendezvous,
                                                const config::Parallel& parallel, std::size_t bytes,
                                                const std::function<void(const std::string&)>& say);

}  // namespace trainer::cluster
