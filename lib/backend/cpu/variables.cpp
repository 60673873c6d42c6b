#include "backend/cpu/variables.h"

#include <algorithm>
#include <stdexcept>

namespace trainer::backend::cpu {
namespace {

Memory floats(std::int64_t count) { return Memory(count * kFloatBytes); }

}  // namespace

CpuVariables::CpuVariables(const graph::Graph& graph) : placement_(place_variables(graph)) {
  const Flat& flat = placement_.flat;
  parameters_ = floats(flat.count);
  for (int slot = 0; slot < flat.slots; ++slot) slots_.push_back(floats(flat.count));
  if (flat.average) average_ = floats(flat.count);
  statistics_ = floats(flat.statistics);
  rest_ = floats(placement_.rest);
}

float* CpuVariables::at(std::string_view name) const {
  using Where = Placement::Place::Where;
  const Placement::Place& place = placement_.at(name);
  switch (place.where) {
    case Where::kParameters:
      return flat_parameters() + place.offset;
    case Where::kSlot:
      return flat_slot(place.slot) + place.offset;
    case Where::kAverage:
      return flat_average() + place.offset;
    case Where::kStatistics:
      return statistics_.as<float>() + place.offset;
    case Where::kRest:
      return rest_.as<float>() + place.offset;
  }
  throw std::logic_error("unknown place of a variable");
}

void CpuVariables::read(std::string_view name, std::span<float> to) const {
  std::copy_n(at(name), to.size(), to.begin());
}

void CpuVariables::write(std::string_view name, std::span<const float> from) {
  std::copy(from.begin(), from.end(), at(name));
  packed_weights_.note_write();
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
      return statistics_.as<float>();
  }
  throw std::logic_error("unknown flat buffer");
}

void CpuVariables::read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const {
  std::copy_n(flat_buffer(buffer) + first, to.size(), to.begin());
}

void CpuVariables::write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) {
  std::copy(from.begin(), from.end(), flat_buffer(buffer) + first);
  packed_weights_.note_training();
}

std::int64_t CpuVariables::bytes() const {
  std::int64_t total = parameters_.bytes() + average_.bytes() + statistics_.bytes() + rest_.bytes();
  for (const Memory& slot : slots_) total += slot.bytes();
  return total;
}

}  // namespace trainer::backend::cpu
