// The communicator that a config asks for.
#pragma once

#include <cstdint>
#include <memory>

#include "cluster/collective/peer_communicator.h"
#include "cluster/communicator.h"
#include "cluster/rendezvous.h"
#include "config/sections/parallel.h"

namespace trainer::cluster {

// Two groups of all ranks whose calls are independent of each other.
struct Communicators {
  std::unique_ptr<Communicator> gradients, control;
};

// Returns how parallel.collective and parallel.reduction let this number of processes sum.
Algorithm choose_algorithm(const config::Parallel& parallel, std::int64_t processes);

// Opens communicators of all ranks of the rendezvous. Collective. Throws the errors of
// open_group().
Communicators open_communicators(const std::shared_ptr<Rendezvous>& rendezvous,
                                 const config::Parallel& parallel);

}  // namespace trainer::cluster
