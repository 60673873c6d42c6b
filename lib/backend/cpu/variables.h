// A model's persistent values on the CPU, and copies of them in the formats of primitives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/memory.h"

namespace trainer::backend::cpu {

// Returns the name of the parameter of a gradient, which is named "<parameter>/gradient".
inline std::string parameter_of(const std::string& gradient) {
  const auto slash = gradient.rfind('/');
  return slash == std::string::npos ? gradient : gradient.substr(0, slash);
}

// Copies of persistent values in other formats (reordered for a primitive, folded with batch norm),
// shared by all executables and workers and rebuilt when a value has changed.
class PackedWeights {
 public:
  struct Entry {
    std::string key;
    int topological_order = 0;  // 0: of persistent values; 1: may be made of entries of order 0
    Memory memory;
    std::function<void()> rebuild;
    bool changed_by_training = false;  // made of something that training steps change
    std::uint64_t version = 0;         // of the variables it was made from; 0: never built
  };
  // The entry of this key, created with `create` when new.
  Entry& get(const std::string& key, int topological_order, std::int64_t bytes,
             const std::function<std::function<void()>(char* memory)>& create);
  std::int64_t bytes() const;

 private:
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

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

  // Whether training steps change this value: trained parameters with their slots and averages,
  // moving statistics. Everything else changes by write() alone.
  bool changed_by_training(const std::string& name) const {
    return changed_by_training_.contains(name);
  }
  // Rises with every change that an entry depends on.
  std::uint64_t version_of(const PackedWeights::Entry& entry) const {
    return entry.changed_by_training ? version_ : written_;
  }
  void changed_by_step() { ++version_; }
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
  std::uint64_t version_ = 1;                 // of all values
  std::uint64_t written_ = 1;                 // of values that training does not change
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cpu
