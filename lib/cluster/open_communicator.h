// The communicator that a config asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cluster/communicator.h"
#include "cluster/rendezvous.h"
#include "config/sections/parallel.h"

namespace trainer::cluster {

// Two groups of all ranks whose calls are independent of each other.
struct Communicators {
  std::unique_ptr<Communicator> gradients, control;
};

// Opens communicators of all ranks of the rendezvous, for gradients of about `bytes`.
// parallel.collective names the algorithm. With auto the ranks measure, and rank 0 passes one line
// with the result to the last argument; with nccl, GPUs sum the gradients and nothing is measured.
// Collective. Throws the errors of open_gloo().
Communicators open_communicators(const std::shared_ptr<Rendezvous>& rendezvous,
                                 const config::Parallel& parallel, std::size_t bytes,
                                 const std::function<void(const std::string&)>& say);

// Throws ConfigError if parallel.collective cannot sum over this number of processes.
void check_process_count(const config::Parallel& parallel, std::int64_t processes);

// Returns the way in which processes sum if their sums must not depend on a measured time:
// "halving_doubling", "ring" or "exchanging the roots of a tree". Returns "" if parallel.collective
// names the algorithm, or if the fastest one is measured.
std::string describe_rule(const config::Parallel& parallel, std::int64_t processes);

}  // namespace trainer::cluster
