#include "reference_backend/variables.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace trainer::test {
namespace {

using Kind = backend::FlatBuffer::Kind;

std::set<std::string> moved_statistics(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::UpdateStatistics>(node.op)) continue;
    for (std::size_t i = 0; i < 2; ++i) names.insert(graph[node.inputs[i]].name);
  }
  return names;
}

}  // namespace

ReferenceVariables::ReferenceVariables(const graph::Graph& graph, std::function<void()> synchronize)
    : synchronize_(std::move(synchronize)) {
  for (const graph::Node& node : graph.nodes) {
    const auto* update = std::get_if<graph::Update>(&node.op);
    if (update == nullptr) continue;
    const graph::Value& parameter = graph[node.inputs[0]];
    backend::Segment segment{parameter.name, flat_.count, parameter.shape.elements(),
                             *update,        0,           update->ema > 0};
    segment.slots = static_cast<int>(node.inputs.size()) - 2 - (segment.average ? 1 : 0);
    flat_.slots = std::max(flat_.slots, segment.slots);
    flat_.average = flat_.average || segment.average;
    flat_.count += segment.count;
    flat_.segments.push_back(segment);
  }
  const auto count = static_cast<std::size_t>(flat_.count);
  parameters_.resize(count);
  if (flat_.average) average_.resize(count);
  slots_.assign(static_cast<std::size_t>(flat_.slots), std::vector<float>(count));

  std::size_t next = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::Update>(node.op)) continue;
    const backend::Segment& segment = flat_.segments[next++];
    const auto part = [&](std::vector<float>& buffer) {
      return std::span(buffer).subspan(static_cast<std::size_t>(segment.offset),
                                       static_cast<std::size_t>(segment.count));
    };
    places_[segment.parameter] = part(parameters_);
    for (int slot = 0; slot < segment.slots; ++slot) {
      const auto s = static_cast<std::size_t>(slot);
      places_[graph[node.inputs[2 + s]].name] = part(slots_[s]);
    }
    if (segment.average) places_[graph[node.inputs.back()].name] = part(average_);
  }
  const std::set<std::string> moved = moved_statistics(graph);
  rest_.reserve(graph.values.size());
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    values_.push_back(value);
    if (!places_.contains(value.name)) {
      rest_.emplace_back(static_cast<std::size_t>(value.shape.elements()));
      places_[value.name] = rest_.back();
    }
    if (moved.contains(value.name)) {
      statistics_.push_back(places_[value.name]);
      flat_.statistics += value.shape.elements();
    }
  }
}

std::span<float> ReferenceVariables::locate(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) throw std::logic_error("no variable " + std::string(name));
  return found->second;
}

void ReferenceVariables::read(std::string_view name, std::span<float> to) const {
  synchronize_();
  std::copy_n(locate(name).begin(), to.size(), to.begin());
}

void ReferenceVariables::write(std::string_view name, std::span<const float> from) {
  synchronize_();
  std::copy(from.begin(), from.end(), locate(name).begin());
}

std::vector<float>& ReferenceVariables::find_buffer(backend::FlatBuffer buffer) const {
  switch (buffer.kind) {
    case Kind::kParameters:
      return parameters_;
    case Kind::kSlot:
      return slots_.at(static_cast<std::size_t>(buffer.slot));
    case Kind::kAverage:
      return average_;
    case Kind::kStatistics:
    case Kind::kRest:
      break;
  }
  throw std::logic_error("statistics are not a flat buffer here");
}

template <class Copy>
void ReferenceVariables::each_statistic(std::int64_t first, std::int64_t count,
                                        const Copy& copy) const {
  std::int64_t begin = 0;
  for (const std::span<float> statistic : statistics_) {
    const auto size = static_cast<std::int64_t>(statistic.size());
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(first + count, begin + size);
    if (from < to) {
      copy(statistic.subspan(static_cast<std::size_t>(from - begin),
                             static_cast<std::size_t>(to - from)),
           static_cast<std::size_t>(from - first));
    }
    begin += size;
  }
}

void ReferenceVariables::read_flat(backend::FlatBuffer buffer, std::int64_t first,
                                   std::span<float> to) const {
  synchronize_();
  if (buffer.kind == Kind::kStatistics) {
    each_statistic(
        first, static_cast<std::int64_t>(to.size()), [&](std::span<float> part, std::size_t at) {
          std::copy(part.begin(), part.end(), to.begin() + static_cast<std::ptrdiff_t>(at));
        });
    return;
  }
  std::copy_n(find_buffer(buffer).begin() + first, to.size(), to.begin());
}

void ReferenceVariables::write_flat(backend::FlatBuffer buffer, std::int64_t first,
                                    std::span<const float> from) {
  synchronize_();
  if (buffer.kind == Kind::kStatistics) {
    each_statistic(
        first, static_cast<std::int64_t>(from.size()), [&](std::span<float> part, std::size_t at) {
          std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), part.size(), part.begin());
        });
    return;
  }
  std::copy(from.begin(), from.end(), find_buffer(buffer).begin() + first);
}

}  // namespace trainer::test
