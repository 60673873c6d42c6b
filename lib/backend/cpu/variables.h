// A model's persistent values on the CPU, and copies of them in the formats of primitives.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/memory.h"
#include "backend/lowering/packed_weights.h"

namespace trainer::backend::cpu {

using PackedWeights = backend::PackedWeights<Memory, void()>;

class CpuVariables : public Variables {
 public:
  // Trained parameters lie in the order of the graph's update nodes: the order in which backward
  // produces their gradients.
  explicit CpuVariables(const graph::Graph& graph);

  const std::vector<graph::Value>& values() const override { return values_; }
  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  Flat flat() const override;
  void read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const override;
  void write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) override;

  float* at(const std::string& name) const;  // throws std::logic_error when unknown
  const std::vector<Segment>& segments() const { return segments_; }
  // Offset of a trained parameter in the flat buffers, or -1.
  std::int64_t gradient_offset(const std::string& parameter) const;
  std::int64_t flat_count() const { return flat_count_; }
  float* flat_parameters() const { return flat_.as<float>(); }
  float* flat_slot(int slot) const { return slots_[static_cast<std::size_t>(slot)].as<float>(); }
  float* flat_average() const { return average_.as<float>(); }
  std::int64_t bytes() const;

  // True if training steps change this value: trained parameters with their slots and averages,
  // moving statistics. Everything else changes by write() alone.
  bool changed_by_training(const std::string& name) const {
    return changed_by_training_.contains(name);
  }
  PackedWeights& packed_weights() { return packed_weights_; }

 private:
  float* flat_buffer(FlatBuffer buffer) const;
  // Calls copy(part of a statistic, offset into the part asked for).
  template <class Copy>
  void each_statistic(std::int64_t first, std::int64_t count, const Copy& copy) const;

  std::vector<graph::Value> values_;
  std::map<std::string, float*, std::less<>> pointers_;
  std::vector<Segment> segments_;
  std::map<std::string, std::int64_t> gradient_offsets_;
  std::int64_t flat_count_ = 0;
  Memory flat_, average_, rest_;
  std::vector<Memory> slots_;
  std::set<std::string> changed_by_training_;
  std::vector<std::span<float>> statistics_;  // that steps move
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cpu
