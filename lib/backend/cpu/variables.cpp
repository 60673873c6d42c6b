#include "backend/cpu/variables.h"

#include <algorithm>
#include <stdexcept>

namespace trainer::backend::cpu {
namespace {

// Elements from one tensor to the next: whole cache lines, so that no two tensors share one.
std::int64_t padded(std::int64_t elements) { return (elements + 15) / 16 * 16; }

// What the update phase writes.
std::set<std::string> values_changed_by_training(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const graph::Node& node : graph.nodes) {
    if (node.phase != graph::Phase::kUpdate) continue;
    for (const graph::ValueId input : node.inputs) {
      if (graph::is_persistent(graph[input].role)) names.insert(graph[input].name);
    }
  }
  return names;
}

}  // namespace

CpuVariables::CpuVariables(const graph::Graph& graph)
    : changed_by_training_(values_changed_by_training(graph)) {
  int slot_count = 0;
  bool averages = false;
  for (const graph::Node& node : graph.nodes) {
    const auto* update = std::get_if<graph::Update>(&node.op);
    if (update == nullptr) continue;
    const graph::Value& parameter = graph[node.inputs[0]];
    Segment segment{parameter.name, flat_count_, parameter.shape.elements(), *update, 0, false};
    segment.average = update->ema > 0;
    segment.slots = static_cast<int>(node.inputs.size()) - 2 - (segment.average ? 1 : 0);
    slot_count = std::max(slot_count, segment.slots);
    averages = averages || segment.average;
    gradient_offsets_[parameter.name] = flat_count_;
    flat_count_ += padded(segment.count);
    segments_.push_back(std::move(segment));
  }
  const std::int64_t bytes = flat_count_ * static_cast<std::int64_t>(sizeof(float));
  flat_ = Memory(bytes);
  for (int slot = 0; slot < slot_count; ++slot) slots_.emplace_back(bytes);
  if (averages) average_ = Memory(bytes);

  std::size_t next = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!std::holds_alternative<graph::Update>(node.op)) continue;
    const Segment& segment = segments_[next++];
    pointers_[segment.parameter] = flat_parameters() + segment.offset;
    for (int slot = 0; slot < segment.slots; ++slot) {
      const auto input = static_cast<std::size_t>(2 + slot);
      pointers_[graph[node.inputs[input]].name] = flat_slot(slot) + segment.offset;
    }
    if (segment.average) {
      pointers_[graph[node.inputs.back()].name] = flat_average() + segment.offset;
    }
  }
  std::int64_t rest = 0;
  for (const graph::Value& value : graph.values) {
    if (!graph::is_persistent(value.role)) continue;
    values_.push_back(value);
    if (!pointers_.contains(value.name)) rest += padded(value.shape.elements());
  }
  rest_ = Memory(rest * static_cast<std::int64_t>(sizeof(float)));
  float* at = rest_.as<float>();
  for (const graph::Value& value : values_) {
    if (pointers_.contains(value.name)) continue;
    pointers_[value.name] = at;
    at += padded(value.shape.elements());
  }
  for (const graph::Value& value : values_) {
    if (value.role != graph::Role::kStatistic || !changed_by_training_.contains(value.name))
      continue;
    statistics_.emplace_back(pointers_[value.name],
                             static_cast<std::size_t>(value.shape.elements()));
  }
}

float* CpuVariables::at(const std::string& name) const {
  const auto found = pointers_.find(name);
  if (found == pointers_.end()) throw std::logic_error("no variable is called " + name);
  return found->second;
}

std::int64_t CpuVariables::gradient_offset(const std::string& parameter) const {
  const auto found = gradient_offsets_.find(parameter);
  return found == gradient_offsets_.end() ? -1 : found->second;
}

void CpuVariables::read(std::string_view name, std::span<float> to) const {
  const float* from = at(std::string(name));
  std::copy(from, from + to.size(), to.begin());
}

void CpuVariables::write(std::string_view name, std::span<const float> from) {
  std::copy(from.begin(), from.end(), at(std::string(name)));
  packed_weights_.note_write();
}

Flat CpuVariables::flat() const {
  Flat flat{segments_, flat_count_, static_cast<int>(slots_.size()), average_.bytes() > 0, 0};
  for (const auto& statistic : statistics_) {
    flat.statistics += static_cast<std::int64_t>(statistic.size());
  }
  return flat;
}

float* CpuVariables::flat_buffer(FlatBuffer buffer) const {
  switch (buffer.kind) {
    case FlatBuffer::Kind::kParameters:
      return flat_parameters();
    case FlatBuffer::Kind::kSlot:
      return flat_slot(buffer.slot);
    case FlatBuffer::Kind::kAverage:
      return flat_average();
    case FlatBuffer::Kind::kStatistics:
      break;
  }
  throw std::logic_error("statistics lie apart from each other");
}

template <class Copy>
void CpuVariables::each_statistic(std::int64_t first, std::int64_t count, const Copy& copy) const {
  std::int64_t begin = 0;
  for (const std::span<float> statistic : statistics_) {
    const std::int64_t end = begin + static_cast<std::int64_t>(statistic.size());
    const std::int64_t from = std::max(begin, first), to = std::min(end, first + count);
    if (from < to) {
      copy(statistic.subspan(static_cast<std::size_t>(from - begin),
                             static_cast<std::size_t>(to - from)),
           from - first);
    }
    begin = end;
  }
}

void CpuVariables::read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const {
  if (buffer.kind == FlatBuffer::Kind::kStatistics) {
    each_statistic(first, static_cast<std::int64_t>(to.size()),
                   [&](std::span<float> values, std::int64_t at) {
                     std::copy(values.begin(), values.end(), to.begin() + at);
                   });
    return;
  }
  const float* from = flat_buffer(buffer) + first;
  std::copy(from, from + to.size(), to.begin());
}

void CpuVariables::write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) {
  packed_weights_.note_training();
  if (buffer.kind == FlatBuffer::Kind::kStatistics) {
    each_statistic(first, static_cast<std::int64_t>(from.size()),
                   [&](std::span<float> values, std::int64_t at) {
                     std::copy_n(from.begin() + at, values.size(), values.begin());
                   });
    return;
  }
  std::copy(from.begin(), from.end(), flat_buffer(buffer) + first);
}

std::int64_t CpuVariables::bytes() const {
  std::int64_t total = flat_.bytes() + average_.bytes() + rest_.bytes();
  for (const Memory& slot : slots_) total += slot.bytes();
  return total;
}

}  // namespace trainer::backend::cpu
