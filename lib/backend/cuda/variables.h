// A model's persistent values in device memory, and the copies of them that kernels want.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/placement.h"

namespace trainer::backend::cuda {

// Copies of persistent values in other types and layouts, or folded with batch norm, shared by the
// executables of a model and made again when a value has changed.
class PackedWeights {
 public:
  using Make = std::function<void(cudaStream_t)>;
  struct Entry {
    int order = 0;  // made after all entries of lower order
    Buffer memory;
    Make make;
    bool changed_by_training = false;
    std::uint64_t version = 0;  // of the variables it was made from; 0: never made
  };
  // The entry of this key, created with `create(memory)` when new.
  Entry& get(const std::string& key, int order, int device, std::int64_t bytes,
             const std::function<Make(std::byte* memory)>& create);
  std::int64_t bytes() const;

 private:
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

class CudaVariables final : public Variables {
 public:
  // `synchronize` waits until the device has done what was launched. Those of the planned device
  // hold nothing: reads give zeros.
  CudaVariables(const graph::Graph& graph, int device, std::function<void()> synchronize);

  const std::vector<graph::Value>& values() const override { return placement_.values; }
  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  Flat flat() const override { return placement_.flat; }
  void read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const override;
  void write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) override;

  int device() const { return device_; }
  const Placement& placement() const { return placement_; }
  float* at(std::string_view name) const;  // device memory
  float* parameters() const { return pointer_to<float>(parameters_.span()); }
  float* slot(int i) const { return pointer_to<float>(slots_[static_cast<std::size_t>(i)].span()); }
  float* average() const { return pointer_to<float>(average_.span()); }
  float* statistics() const { return pointer_to<float>(statistics_.span()); }
  std::int64_t bytes() const;       // of all variables
  std::int64_t slot_bytes() const;  // of these, slots and averages

  // Rises with every change of what an entry was made from.
  std::uint64_t version_of(const PackedWeights::Entry& entry) const {
    return entry.changed_by_training ? version_ : written_;
  }
  void changed_by_training() { ++version_; }
  PackedWeights& packed() { return packed_; }
  // Memory for activations, shared by the executables of a model, of which one runs at a time.
  // Memory handed out before stays valid.
  std::byte* arena(std::int64_t bytes);
  std::int64_t arena_bytes() const;

 private:
  float* flat_buffer(FlatBuffer buffer) const;
  void copy(void* to, const void* from, std::size_t count, cudaMemcpyKind kind) const;

  int device_;
  std::function<void()> synchronize_;
  Placement placement_;
  Buffer parameters_, average_, statistics_, rest_;
  std::vector<Buffer> slots_, arenas_;
  StreamHandle stream_;        // of reads and writes
  std::uint64_t version_ = 1;  // of all values
  std::uint64_t written_ = 1;  // of those that training leaves alone
  PackedWeights packed_;
};

}  // namespace trainer::backend::cuda
