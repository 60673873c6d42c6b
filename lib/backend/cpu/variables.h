// A model's kept values on the CPU, and what is derived from them.
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

// Copies of kept values in other formats (reordered for a primitive, folded with batch norm),
// shared by all executables and lanes and made again when a value has changed.
class DerivedStore {
 public:
  struct Entry {
    std::string key;
    int level = 0;  // made after all entries of lower levels
    Memory memory;
    std::function<void()> make;
    bool stepped = false;       // made from something that training steps change
    std::uint64_t version = 0;  // of the variables it was made from; 0: never made
  };
  // The entry of this key, created with `create` when new.
  Entry& get(const std::string& key, int level, std::int64_t bytes,
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
  bool stepped(const std::string& name) const { return stepped_.contains(name); }
  // Rises with every change that an entry depends on.
  std::uint64_t version_of(const DerivedStore::Entry& entry) const {
    return entry.stepped ? version_ : written_;
  }
  void changed_by_step() { ++version_; }
  DerivedStore& derived() { return derived_; }

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
  std::set<std::string> stepped_;
  std::vector<std::span<float>> statistics_;  // that steps move
  std::uint64_t version_ = 1;                 // of all values
  std::uint64_t written_ = 1;                 // of those that steps leave alone
  DerivedStore derived_;
};

}  // namespace trainer::backend::cpu
