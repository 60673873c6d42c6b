#include "cluster/open_communicator.h"

#include <utility>

namespace trainer::cluster {

Algorithm choose_algorithm(const config::Parallel& parallel, std::int64_t processes) {
  using config::Parallel;
  if (parallel.collective == config::Collective::kRing) return Algorithm::kRing;
  if (parallel.reduction == Parallel::Reduction::kOrdered) return Algorithm::kTree;
  return fastest_algorithm(static_cast<int>(processes));
}

Communicators open_communicators(const std::shared_ptr<Rendezvous>& rendezvous,
                                 const config::Parallel& parallel) {
  GroupPair pair = open_group_pair(rendezvous, choose_algorithm(parallel, rendezvous->size()));
  return {std::move(pair.first), std::move(pair.second)};
}

}  // namespace trainer::cluster
