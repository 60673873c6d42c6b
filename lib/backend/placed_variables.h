// Variables that lie in the flat buffers of their Placement.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "backend/placement.h"

namespace trainer::backend {

// A backend derives its own class, which allocates the buffers and copies from and to them.
class PlacedVariables : public Variables {
 public:
  const std::vector<graph::Value>& values() const override { return placement_.values; }
  Flat flat() const override { return placement_.flat; }

  const Placement& placement() const { return placement_; }
  const std::vector<Segment>& segments() const { return placement_.flat.segments; }
  std::int64_t flat_count() const { return placement_.flat.count; }
  // Returns the offset of a trained parameter in the flat buffers, or -1.
  std::int64_t gradient_offset(std::string_view parameter) const {
    return placement_.gradient_offset(parameter);
  }
  // True if training steps change this value: trained parameters with their slots and averages,
  // moving statistics. Everything else changes by write() alone.
  bool changed_by_training(std::string_view name) const {
    return placement_.changed_by_training(name);
  }

  // Each returns memory of the device.
  float* at(std::string_view name) const {  // throws std::logic_error if there is no such variable
    const Placement::Location& place = placement_.at(name);
    return buffer(place.buffer) + place.offset;
  }
  float* parameters() const { return parameters_; }
  float* slot(int i) const { return slots_[i]; }
  float* average() const { return average_; }
  float* statistics() const { return statistics_; }

  // Returns the bytes of all variables, and of these the bytes of slots and averages.
  std::int64_t bytes() const {
    return (flat_count() + placement_.flat.statistics + placement_.rest) * kElement + slot_bytes();
  }
  std::int64_t slot_bytes() const {
    return flat_count() * (placement_.flat.slots + (placement_.flat.average ? 1 : 0)) * kElement;
  }

 protected:
  explicit PlacedVariables(const graph::Graph& graph) : placement_(place_variables(graph)) {}

  // `allocate` returns zeros for that many values, in memory that the derived class owns.
  void allocate_buffers(const std::function<float*(std::int64_t)>& allocate) {
    const Flat& flat = placement_.flat;
    parameters_ = allocate(flat.count);
    for (int slot = 0; slot < flat.slots; ++slot) slots_.push_back(allocate(flat.count));
    if (flat.average) average_ = allocate(flat.count);
    statistics_ = allocate(flat.statistics);
    rest_ = allocate(placement_.rest);
  }
  float* buffer(FlatBuffer which) const;

 private:
  static constexpr std::int64_t kElement = sizeof(float);

  Placement placement_;
  float *parameters_ = nullptr, *average_ = nullptr, *statistics_ = nullptr, *rest_ = nullptr;
  std::vector<float*> slots_;
};

inline float* PlacedVariables::buffer(FlatBuffer which) const {
  switch (which.kind) {
    case FlatBuffer::Kind::kParameters:
      return parameters_;
    case FlatBuffer::Kind::kSlot:
      return slots_[which.slot];
    case FlatBuffer::Kind::kAverage:
      return average_;
    case FlatBuffer::Kind::kStatistics:
      return statistics_;
    case FlatBuffer::Kind::kRest:
      return rest_;
  }
  throw std::logic_error("unknown flat buffer; internal error, please report it");
}

}  // namespace trainer::backend
