// A model's persistent values on the CPU, and copies of them in the formats of primitives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/lowering/packed_weights.h"
#include "backend/placed_variables.h"

namespace trainer::backend::cpu {

using PackedWeights = backend::PackedWeights<Memory, void()>;

class CpuVariables : public PlacedVariables {
 public:
  explicit CpuVariables(const graph::Graph& graph);

  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  void read_flat(FlatBuffer which, std::int64_t first, std::span<float> to) const override;
  void write_flat(FlatBuffer which, std::int64_t first, std::span<const float> from) override;

  PackedWeights& packed_weights() { return packed_weights_; }

 private:
  std::vector<Memory> memory_;
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cpu
