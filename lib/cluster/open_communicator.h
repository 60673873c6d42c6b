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

// A communicator of all ranks of the rendezvous, for sums of about `bytes`. parallel.collective
// says how it sums; with auto that is measured, and rank 0 tells `say` a line. Collective. Throws
// as open_gloo() does.
std::unique_ptr<Communicator> open_communicator(const std::shared_ptr<Rendezvous>& rendezvous,
                                                const config::Parallel& parallel, std::size_t bytes,
                                                const std::function<void(const std::string&)>& say);

}  // namespace trainer::cluster
