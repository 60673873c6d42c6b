#include "backend/cpu/variables.h"

#include <algorithm>

namespace trainer::backend::cpu {

CpuVariables::CpuVariables(const graph::Graph& graph) : PlacedVariables(graph) {
  allocate_buffers(
      [this](std::int64_t count) { return memory_.emplace_back(count * kFloatBytes).as<float>(); });
}

void CpuVariables::read(std::string_view name, std::span<float> to) const {
  std::copy_n(at(name), to.size(), to.begin());
}

void CpuVariables::write(std::string_view name, std::span<const float> from) {
  std::ranges::copy(from, at(name));
  packed_weights_.note_write();
}

void CpuVariables::read_flat(FlatBuffer which, std::int64_t first, std::span<float> to) const {
  std::copy_n(buffer(which) + first, to.size(), to.begin());
}

void CpuVariables::write_flat(FlatBuffer which, std::int64_t first, std::span<const float> from) {
  std::ranges::copy(from, buffer(which) + first);
  packed_weights_.note_training();
}

}  // namespace trainer::backend::cpu
