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
// parallel.collective names the algorithm. With auto the ranks measure, and rank 0 passes one line
// with the result to the last argument; with nccl, GPUs sum the gradients and nothing is measured.
// Collective. Throws the errors of open_gloo().
std::unique_ptr<Communicator> open_communicator(const std::shared_ptr<Rendezvous>& rendezvous,
                                                const config::Parallel& parallel, std::size_t bytes,
                                                const std::function<void(const std::string&)>& say);

}  // namespace trainer::cluster
