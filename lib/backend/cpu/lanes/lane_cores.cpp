#include "backend/cpu/lanes/lane_cores.h"

#include <algorithm>
#include <map>

namespace trainer::backend::cpu {
namespace {

// Returns whether two processors share what the threads of a lane must share.
bool are_together(const Processor& a, const Processor& b, Locality locality) {
  if (locality == Locality::kMachine) return true;
  return locality == Locality::kDomain ? a.domain == b.domain : a.node == b.node;
}

// Places as many lanes as there is room for, at most `lanes`.
std::vector<std::vector<Processor>> place(std::span<const Processor> processors, std::size_t lanes,
                                          std::size_t threads, Locality locality) {
  std::vector<std::vector<Processor>> placed;
  for (std::size_t first = 0; placed.size() < lanes && first + threads <= processors.size();) {
    const std::span<const Processor> lane = processors.subspan(first, threads);
    // Processors that share something follow each other.
    const bool fits = are_together(lane.front(), lane.back(), locality);
    if (fits) placed.emplace_back(lane.begin(), lane.end());
    first += fits ? threads : 1;
  }
  return placed;
}

}  // namespace

LaneCores place_lanes(std::span<const Processor> processors, int lanes, int threads) {
  const auto count = static_cast<std::size_t>(lanes), each = static_cast<std::size_t>(threads);
  if (processors.size() < count * each) return {};
  for (const Locality locality : {Locality::kDomain, Locality::kNode, Locality::kMachine}) {
    std::vector<std::vector<Processor>> placed = place(processors, count, each, locality);
    if (placed.size() == count) return {locality, std::move(placed)};
  }
  return {};
}

std::int64_t bytes_across_nodes(const LaneCores& cores, std::int64_t gradient_bytes) {
  std::map<int, std::int64_t> on_node;  // the number of lanes
  for (const std::vector<Processor>& lane : cores.lanes) ++on_node[lane.front().node];
  const auto lanes = std::ssize(cores.lanes);
  std::int64_t pairs = 0;  // counts pairs of lanes on different nodes
  for (const auto& [node, count] : on_node) pairs += count * (lanes - count);
  return lanes == 0 ? 0 : gradient_bytes * pairs / lanes;
}

std::vector<std::vector<int>> node_cores(const LaneCores& cores,
                                         std::span<const Processor> processors) {
  std::vector<std::vector<int>> all;
  for (const std::vector<Processor>& lane : cores.lanes) {
    std::vector<int>& numbers = all.emplace_back();
    for (const Processor& processor : processors) {
      const bool is_on_node = std::ranges::any_of(
          lane, [&](const Processor& other) { return other.node == processor.node; });
      if (is_on_node) numbers.push_back(processor.number);
    }
  }
  return all;
}

}  // namespace trainer::backend::cpu
