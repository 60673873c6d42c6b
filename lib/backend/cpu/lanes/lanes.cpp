#include "backend/cpu/lanes/lanes.h"

#include <algorithm>
#include <variant>

#include "backend/cpu/lanes/joint_layers.h"
#include "backend/placement.h"
#include "base/error.h"

namespace trainer::backend::cpu {
namespace {

// Of the memory of the trained parameters.
constexpr std::int64_t kMostGradients = 4;

// Elements of all gradient buffers of a training program with so many lanes.
std::int64_t gradient_elements(const graph::Graph& graph, const CpuVariables& variables,
                               const CompileOptions& options, int lanes) {
  const std::int64_t at_once = samples_at_once(graph, options, lanes);
  const JointLayers joint(graph, variables, lanes, at_once);
  const std::int64_t own = variables.flat_count() - joint.gradient_count();
  const bool several_rounds = options.max_samples > at_once;
  const bool sums_apart = options.reduction.gradients != nullptr && !joint.empty();
  return joint.gradient_count() + own * lanes * (several_rounds ? 2 : 1) +
         (sums_apart ? variables.flat_count() : 0);
}

}  // namespace

bool needs_whole_batch(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return std::holds_alternative<graph::BatchNorm>(node.op);
  });
}

std::int64_t samples_at_once(const graph::Graph& graph, const CompileOptions& options, int lanes) {
  if (needs_whole_batch(graph)) return options.max_samples;
  return std::min(options.max_samples, kMicroBatch * lanes);
}

Lanes choose_lanes(const graph::Graph& graph, const CpuVariables& variables,
                   const CompileOptions& options, int threads) {
  if (!has_updates(graph)) return {std::min(threads, kMostLanes), ""};
  const auto samples = static_cast<int>(std::min<std::int64_t>(options.max_samples, kMostLanes));
  const int most = std::max(1, std::min(threads, samples));
  const std::int64_t limit = kMostGradients * variables.flat_count();
  int best = 1;
  for (int lanes = 1; lanes <= most; ++lanes) {
    const bool fits = gradient_elements(graph, variables, options, lanes) <= limit;
    const int busy = lanes * (threads / lanes);
    if (fits && 4 * busy >= 3 * threads) best = lanes;
  }
  if (best == threads) return {best, ""};
  const bool by_samples = best == samples;
  return {best, by_samples ? concat("a call has at most ", samples, " samples")
                           : concat(most, " lanes would hold gradients of more than ",
                                    kMostGradients, " times the parameters")};
}

}  // namespace trainer::backend::cpu
