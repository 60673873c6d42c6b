#include "backend/cpu/lanes/lanes.h"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "backend/cpu/lanes/joint_layers.h"
#include "backend/placement.h"
#include "base/error.h"

namespace trainer::backend::cpu {
namespace {

// The maximum memory of all gradients, as a multiple of the trained parameters.
constexpr std::int64_t kMaxGradients = 4;

// The elements of the gradients of a training program.
struct Gradients {
  std::int64_t all = 0;   // in all buffers
  std::int64_t lane = 0;  // in the buffer that one lane leaves to be summed
};

Gradients count_gradients(const graph::Graph& graph, const CpuVariables& variables,
                          const CompileOptions& options, int lanes) {
  const std::int64_t at_once = samples_at_once(graph, options, lanes);
  const JointLayers joint(graph, variables, lanes, at_once);
  const std::int64_t per_lane = variables.flat_count() - joint.gradient_count();
  const bool several_rounds = options.max_samples > at_once;
  const bool sums_apart = options.reduction.gradients != nullptr && !joint.empty();
  return {joint.gradient_count() + per_lane * lanes * (several_rounds ? 2 : 1) +
              (sums_apart ? variables.flat_count() : 0),
          per_lane};
}

// A lane of k threads is k^0.75 times as fast as a lane of one: about 1.7 times for two threads, as
// measured with MobileNetV2 and ResNet50 on up to two threads.
constexpr double kThreadsOfLane = 0.75;
// More lanes are chosen unless they need more than 1 / 0.85 of the shortest time by this model.
constexpr double kTolerance = 0.85;

// Returns whether lanes of equally many threads leave more than a quarter of the threads idle.
bool leaves_idle(int lanes, int threads) { return 4 * (threads % lanes) > threads; }

// One way to divide the threads.
struct Division {
  int lanes = 1;
  int threads = 1;  // per lane
  LaneCores cores;
  double time = 0;  // the time of a step, in units of the time of a sample on one thread
};

Division divide(std::int64_t samples, int lanes, int threads,
                std::span<const Processor> processors) {
  const int each = threads / lanes;
  const std::int64_t slowest = (samples + lanes - 1) / lanes;  // samples of the slowest lane
  return {lanes, each, place_lanes(processors, lanes, each),
          static_cast<double>(slowest) / std::pow(each, kThreadsOfLane)};
}

// Returns the division with the most lanes among the divisions whose threads are nearest to each
// other and that are not slower.
const Division& find_best(const std::vector<Division>& divisions) {
  const auto nearest = std::ranges::min_element(
      divisions,
      [](const Division& a, const Division& b) { return a.cores.locality < b.cores.locality; });
  const auto is_near = [&](const Division& division) {
    return division.cores.locality == nearest->cores.locality;
  };
  double least = nearest->time;
  for (const Division& division : divisions) {
    if (is_near(division)) least = std::min(least, division.time);
  }
  return *std::find_if(divisions.rbegin(), divisions.rend(), [&](const Division& division) {
    return is_near(division) && kTolerance * division.time <= least;
  });
}

// Returns the reason for this division; "" for one lane per thread. `most` has the most lanes that
// fit.
std::string explain(const Division& best, const Division& most, int threads, std::int64_t samples) {
  if (best.lanes == threads) return "";
  if (best.lanes < most.lanes) {
    const std::string others = concat(most.lanes, " lanes of ", most.threads, " threads would ");
    if (most.cores.locality == best.cores.locality) {
      return concat(others, "divide ", samples, " samples less evenly");
    }
    return concat(others, "span ",
                  most.cores.locality == Locality::kNode ? "L3 domains" : "NUMA nodes");
  }
  const int useful = static_cast<int>(std::min<std::int64_t>({threads, samples, kMaxLanes}));
  if (best.lanes == useful && useful == samples) {
    return concat("a call has at most ", samples, " samples");
  }
  if (best.lanes == useful) return concat("there are at most ", kMaxLanes, " lanes");
  if (leaves_idle(useful, threads)) {
    return concat(useful, " lanes would leave ", threads % useful, " of ", threads,
                  " threads idle");
  }
  return concat(useful, " lanes would hold gradients of more than ", kMaxGradients,
                " times the parameters");
}

// Returns the cost of lanes on several nodes; "" for one node.
std::string describe_node_cost(const LaneCores& cores, std::int64_t gradient_elements) {
  const std::int64_t bytes = bytes_across_nodes(cores, gradient_elements * kFloatBytes);
  if (bytes == 0) return "";
  return concat("a step reads ", (bytes + (1 << 20) - 1) >> 20,
                " MiB of gradients across NUMA nodes");
}

}  // namespace

bool needs_whole_batch(const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const graph::Node& node) {
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
  if (!has_updates(graph)) return {std::min(threads, kMaxLanes), ""};
  const std::int64_t samples = options.max_samples;
  const auto max_lanes = static_cast<int>(std::min<std::int64_t>({threads, samples, kMaxLanes}));
  const std::int64_t limit = kMaxGradients * variables.flat_count();
  std::vector<Division> divisions{divide(samples, 1, threads, processors)};
  for (int lanes = 2; lanes <= max_lanes; ++lanes) {
    const bool fits = count_gradients(graph, variables, options, lanes).all <= limit;
    if (fits && !leaves_idle(lanes, threads)) {
      divisions.push_back(divide(samples, lanes, threads, processors));
    }
  }
  const Division& best = find_best(divisions);
  std::string reason = explain(best, divisions.back(), threads, samples);
  const std::string cost =
      describe_node_cost(best.cores, count_gradients(graph, variables, options, best.lanes).lane);
  if (!reason.empty() && !cost.empty()) reason += "; ";
  return {best.lanes, reason + cost};
}

bool runs_in_one_lane(std::int64_t samples, int lanes, int threads) {
  if (samples < 1 || samples >= lanes) return false;
  return divide(samples, 1, threads, {}).time < divide(samples, lanes, threads, {}).time;
}

}  // namespace trainer::backend::cpu
