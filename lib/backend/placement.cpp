#include "backend/placement.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "base/error.h"

namespace trainer::backend {
namespace {

using Kind = FlatBuffer::Kind;

// Elements from one tensor to the next, so that each begins at 64 bytes.
std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }

void place_update(const graph::Graph& graph, const graph::Node& node, Placement& placement) {
  const auto& update = std::get<graph::Update>(node.op);
  const graph::Value& parameter = graph[node.inputs[0]];
  Flat& flat = placement.flat;
  Segment segment{parameter.name, flat.count, parameter.shape.elements(), update, 0, false};
  segment.average = update.ema > 0;
  segment.slots = static_cast<int>(node.inputs.size()) - 2 - (segment.average ? 1 : 0);
  const auto place = [&](const std::string& name, FlatBuffer buffer) {
    placement.locations[name] = {buffer, segment.offset, segment.count};
  };
  place(segment.parameter, {Kind::kParameters});
  for (int slot = 0; slot < segment.slots; ++slot) {
    place(graph[node.inputs[2 + slot]].name, {Kind::kSlot, slot});
  }
  if (segment.average) place(graph[node.inputs.back()].name, {Kind::kAverage});
  flat.slots = std::max(flat.slots, segment.slots);
  flat.average = flat.average || segment.average;
  flat.count += padded(segment.count);
  flat.segments.push_back(std::move(segment));
}

std::set<std::string> moved_statistics(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    for (std::size_t i = 0; i < 2; ++i) names.insert(graph[node.inputs[i]].name);
  }
  return names;
}

}  // namespace

const Placement::Location& Placement::at(std::string_view name) const {
  const auto found = locations.find(name);
  if (found == locations.end()) throw std::logic_error(concat("there is no variable ", name));
  return found->second;
}

std::int64_t Placement::gradient_offset(std::string_view parameter) const {
  const auto found = locations.find(parameter);
  if (found == locations.end() || found->second.buffer.kind != Kind::kParameters) return -1;
  return found->second.offset;
}

std::string parameter_name(const std::string& gradient) {
  return gradient.substr(0, gradient.rfind('/'));
}

bool has_updates(const graph::Graph& graph) {
  return std::ranges::any_of(
      graph.nodes, [](const graph::Node& node) { return node.phase == graph::Phase::kUpdate; });
}

Placement place_variables(const graph::Graph& graph) {
  Placement placement;
  for (const graph::Node& node : graph.nodes) {
    if (std::holds_alternative<graph::Update>(node.op)) place_update(graph, node, placement);
  }
  const std::set<std::string> moved = moved_statistics(graph);
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    placement.values.push_back(value);
    if (placement.locations.contains(value.name)) continue;
    const std::int64_t count = value.shape.elements();
    if (moved.contains(value.name)) {
      placement.locations[value.name] = {{Kind::kStatistics}, placement.flat.statistics, count};
      placement.flat.statistics += count;
    } else {
      placement.locations[value.name] = {{Kind::kRest}, placement.rest, count};
      placement.rest += padded(count);
    }
  }
  return placement;
}

}  // namespace trainer::backend
