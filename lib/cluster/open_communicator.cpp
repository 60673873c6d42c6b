#include "cluster/open_communicator.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

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

bool is_ordered(const Parallel& parallel) {
  return parallel.reduction == Parallel::Reduction::kOrdered;
}

bool is_power_of_two(std::int64_t processes) {
  return std::has_single_bit(static_cast<std::uint64_t>(processes));
}

}  // namespace

void check_process_count(const Parallel& parallel, std::int64_t processes) {
  const Algorithm algorithm = select_algorithm(parallel.collective);
  if (algorithm != Algorithm::kHalvingDoubling || is_power_of_two(processes)) return;
  throw ConfigError(parallel.loc, "parallel.collective: ", spell(parallel.collective),
                    " needs 2, 4, 8, ... processes, but there are ", processes, "; use auto");
}

std::string describe_rule(const Parallel& parallel, std::int64_t processes) {
  // From three ranks on, other orders of summation give other bits, so that no time may decide.
  const bool by_rule_only = parallel.collective == config::Collective::kAuto && processes > 2 &&
                            (parallel.deterministic || is_ordered(parallel));
  if (!by_rule_only) return "";
  if (is_ordered(parallel) && !is_power_of_two(processes)) return "exchanging the roots of a tree";
  return std::string(spell(by_rule(static_cast<int>(processes))));
}

Communicators open_communicators(const std::shared_ptr<Rendezvous>& rendezvous,
                                 const Parallel& parallel, std::size_t bytes,
                                 const std::function<void(const std::string&)>& say) {
  const int size = rendezvous->size();
  const auto open = [&](const std::shared_ptr<const AlgorithmTable>& table) {
    GroupPair pair = open_gloo_pair(rendezvous, table);
    return Communicators{std::move(pair.first), std::move(pair.second)};
  };
  const auto open_one_row = [&](Algorithm algorithm) {
    return open(std::make_shared<const AlgorithmTable>(one_row(algorithm)));
  };
  // If GPUs sum the gradients, the hosts sum only a few numbers per step.
  if (parallel.collective == config::Collective::kNccl) return open_one_row(by_rule(size));
  if (parallel.collective != config::Collective::kAuto) {
    return open_one_row(select_algorithm(parallel.collective));
  }
  if (const std::string rule = describe_rule(parallel, size); !rule.empty()) {
    if (rendezvous->rank() == 0) {
      say(concat("gradients are summed by ", rule, ": ",
                 is_ordered(parallel) ? "parallel.reduction: ordered" : "parallel.deterministic",
                 " allows no choice by time"));
    }
    return open_one_row(by_rule(size));
  }
  const auto table = std::make_shared<AlgorithmTable>(one_row(Algorithm::kRing));
  Communicators groups = open(table);
  const auto measured = measure(*groups.gradients, *table,
                                {std::min<std::size_t>(bytes, 4096), bytes}, rendezvous->network());
  if (rendezvous->rank() == 0) say(to_text(measured, size));
  return groups;
}

}  // namespace trainer::cluster
