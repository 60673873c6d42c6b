#include "cluster/open_communicator.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "cluster/collective/gloo_communicator.h"
#include "cluster/network.h"

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

AlgorithmTable one_row(Algorithm algorithm) {
  return {{std::numeric_limits<std::size_t>::max(), algorithm}};
}

}  // namespace

std::unique_ptr<Communicator> open_communicator(
    const std::shared_ptr<Rendezvous>& rendezvous, const Parallel& parallel, std::size_t bytes,
    const std::function<void(const std::string&)>& say) {
  const int size = rendezvous->size();
  // If GPUs sum the gradients, the hosts sum only a few numbers per step.
  if (parallel.collective == config::Collective::kNccl) {
    return open_gloo(rendezvous, one_row(by_rule(size)));
  }
  if (parallel.collective != config::Collective::kAuto) {
    return open_gloo(rendezvous, one_row(select_algorithm(parallel.collective)));
  }
  const bool ordered = parallel.reduction == Parallel::Reduction::kOrdered;
  // From three ranks on, other orders of summation give other bits, so that no time may decide.
  if (size > 2 && (parallel.deterministic || ordered)) {
    if (rendezvous->rank() == 0) {
      const bool by_roots = ordered && !std::has_single_bit(static_cast<unsigned>(size));
      say(concat("gradients are summed by ",
                 by_roots ? "exchanging the roots of a tree" : to_string(by_rule(size)), ": ",
                 ordered ? "parallel.reduction: ordered" : "parallel.deterministic",
                 " allows no choice by time"));
    }
    return open_gloo(rendezvous, one_row(by_rule(size)));
  }
  const auto table = std::make_shared<AlgorithmTable>(one_row(Algorithm::kRing));
  auto group = open_gloo(rendezvous, table);
  const auto measured =
      measure(*group, *table, {std::min<std::size_t>(bytes, 4096), bytes}, rendezvous->network());
  if (rendezvous->rank() == 0) say(to_text(measured, size));
  return group;
}

}  // namespace trainer::cluster
