// A model's persistent values on the CPU, and copies of them in the formats of primitives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cpu/memory.h"
#include "backend/lowering/packed_weights.h"
#include "backend/placement.h"

namespace trainer::backend::cpu {

using PackedWeights = backend::PackedWeights<Memory, void()>;

class CpuVariables : public Variables {
 public:
  explicit CpuVariables(const graph::Graph& graph);

  const std::vector<graph::Value>& values() const override { return placement_.values; }
  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  Flat flat() const override { return placement_.flat; }
  void read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const override;
  void write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) override;

  float* at(std::string_view name) const;  // throws std::logic_error if there is no such variable
  const std::vector<Segment>& segments() const { return placement_.flat.segments; }
  // Returns the offset of a trained parameter in the flat buffers, or -1.
  std::int64_t gradient_offset(std::string_view parameter) const {
    return placement_.gradient_offset(parameter);
  }
  std::int64_t flat_count() const { return placement_.flat.count; }
  float* flat_parameters() const { return parameters_.as<float>(); }
  float* flat_slot(int slot) const { return slots_[slot].as<float>(); }
  float* flat_average() const { return average_.as<float>(); }
  std::int64_t bytes() const;

  // True if training steps change this value: trained parameters with their slots and averages,
  // moving statistics. Everything else changes by write() alone.
  bool changed_by_training(std::string_view name) const {
    return placement_.changed_by_training(name);
  }
  PackedWeights& packed_weights() { return packed_weights_; }

 private:
  float* flat_buffer(FlatBuffer buffer) const;

  Placement placement_;
  Memory parameters_, average_, statistics_, rest_;
  std::vector<Memory> slots_;
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cpu
