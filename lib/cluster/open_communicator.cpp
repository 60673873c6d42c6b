#include "cluster/open_communicator.h"

#include <algorithm>
#include <limits>

#include "cluster/collective/gloo_communicator.h"

namespace trainer::cluster {
namespace {

using config::Parallel;

Algorithm select_algorithm(config::Collective collective) {
  switch (collective) {
    case config::Collective::kAuto:
    case config::Collective::kRing:
    case config::Collective::kNccl:
      return Algorithm::kRing;
    case config::Collective::kBcube:
      return Algorithm::kBcube;
    case config::Collective::kTree:
    case config::Collective::kHalvingDoubling:
      return Algorithm::kHalvingDoubling;
  }
  return Algorithm::kRing;
}

AlgorithmTable choose(const std::shared_ptr<Rendezvous>& rendezvous, const Parallel& parallel,
                      std::size_t bytes, const std::function<void(const std::string&)>& say) {
  // Numbers of a step are all that hosts sum where GPUs sum the gradients.
  if (parallel.collective == config::Collective::kNccl) {
    return {{std::numeric_limits<std::size_t>::max(), by_rule(rendezvous->size())}};
  }
  if (parallel.collective != config::Collective::kAuto) {
    return {{std::numeric_limits<std::size_t>::max(), select_algorithm(parallel.collective)}};
  }
  const bool reproducible =
      parallel.deterministic || parallel.reduction == Parallel::Reduction::kOrdered;
  const auto measured =
      measure(rendezvous, {std::min<std::size_t>(bytes, 4096), bytes}, reproducible);
  if (rendezvous->rank() == 0) say(to_text(measured, rendezvous->size()));
  return make_algorithm_table(measured);
}

}  // namespace

std::unique_ptr<Communicator> open_communicator(
    const std::shared_ptr<Rendezvous>& rendezvous, const Parallel& parallel, std::size_t bytes,
    const std::function<void(const std::string&)>& say) {
  return open_gloo(rendezvous, choose(rendezvous, parallel, bytes, say));
}

}  // namespace trainer::cluster
