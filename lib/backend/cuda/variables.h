// A model's persistent values in device memory, and the copies of them that kernels want.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/lowering/packed_weights.h"
#include "backend/placement.h"

namespace trainer::backend::cuda {

using PackedWeights = backend::PackedWeights<Buffer, void(cudaStream_t)>;

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
  float* slot(int i) const { return pointer_to<float>(slots_[i].span()); }
  float* average() const { return pointer_to<float>(average_.span()); }
  float* statistics() const { return pointer_to<float>(statistics_.span()); }
  std::int64_t bytes() const;       // of all variables
  std::int64_t slot_bytes() const;  // of these, slots and averages

  bool changed_by_training(std::string_view name) const {
    return placement_.changed_by_training(name);
  }
  std::int64_t gradient_offset(std::string_view parameter) const {
    return placement_.gradient_offset(parameter);
  }
  PackedWeights& packed_weights() { return packed_weights_; }
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
  StreamHandle stream_;  // of reads and writes
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cuda
