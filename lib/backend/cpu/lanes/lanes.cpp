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

// Elements of the gradients of a training program.
struct Gradients {
  std::int64_t all = 0;   // of all buffers
  std::int64_t lane = 0;  // of what one lane leaves to be summed
};

Gradients count_gradients(const graph::Graph& graph, const CpuVariables& variables,
                          const CompileOptions& options, int lanes) {
  const std::int64_t at_once = samples_at_once(graph, options, lanes);
  const JointLayers joint(graph, variables, lanes, at_once);
  const std::int64_t own = variables.flat_count() - joint.gradient_count();
  const bool several_rounds = options.max_samples > at_once;
  const bool sums_apart = options.reduction.gradients != nullptr && !joint.empty();
  return {joint.gradient_count() + own * lanes * (several_rounds ? 2 : 1) +
              (sums_apart ? variables.flat_count() : 0),
          own};
}

// What the choice is between.
struct Bounds {
  int threads = 1;
  int samples = 1;  // of a call, up to kMostLanes
  int fitting = 1;  // the most lanes whose gradients fit
};

// Why these lanes were taken; "" for a lane a thread. `spread`: how far the threads of each lane
// are apart with the most that fit.
std::string reason_for(int lanes, const Bounds& bounds, Locality spread) {
  if (lanes == bounds.threads) return "";
  if (lanes < bounds.fitting) {
    return concat(bounds.fitting, " lanes of ", bounds.threads / bounds.fitting,
                  " threads would span ", spread == Locality::kNode ? "L3 domains" : "NUMA nodes");
  }
  if (lanes == bounds.samples) return concat("a call has at most ", lanes, " samples");
  return concat(std::min(bounds.threads, bounds.samples),
                " lanes would hold gradients of more than ", kMostGradients,
                " times the parameters");
}

// What lanes on several nodes cost; "" on one.
std::string cost_of_nodes(const LaneCores& cores, std::int64_t gradient_elements) {
  const std::int64_t bytes =
      bytes_across_nodes(cores, gradient_elements * static_cast<std::int64_t>(sizeof(float)));
  if (bytes == 0) return "";
  return concat("a step reads ", (bytes + (1 << 20) - 1) >> 20,
                " MiB of gradients across NUMA nodes");
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
                   const CompileOptions& options, int threads,
                   std::span<const Processor> processors) {
  if (!has_updates(graph)) return {std::min(threads, kMostLanes), ""};
  Bounds bounds;
  bounds.threads = threads;
  bounds.samples = static_cast<int>(std::min<std::int64_t>(options.max_samples, kMostLanes));
  const std::int64_t limit = kMostGradients * variables.flat_count();
  int best = 1;
  LaneCores cores = place_lanes(processors, 1, threads), of_fitting = cores;
  for (int lanes = 2; lanes <= std::min(threads, bounds.samples); ++lanes) {
    const bool fits = count_gradients(graph, variables, options, lanes).all <= limit;
    const int each = threads / lanes;
    if (!fits || 4 * lanes * each < 3 * threads) continue;
    bounds.fitting = lanes;
    of_fitting = place_lanes(processors, lanes, each);
    if (of_fitting.locality > cores.locality) continue;
    best = lanes;
    cores = of_fitting;
  }
  std::string reason = reason_for(best, bounds, of_fitting.locality);
  const std::string cost =
      cost_of_nodes(cores, count_gradients(graph, variables, options, best).lane);
  if (!reason.empty() && !cost.empty()) reason += "; ";
  return {best, reason + cost};
}

}  // namespace trainer::backend::cpu
