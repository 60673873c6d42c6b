// A model's persistent values in device memory, and the copies of them that kernels want.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "backend/cuda/runtime.h"
#include "backend/lowering/packed_weights.h"
#include "backend/placed_variables.h"
#include "base/process/progress.h"

namespace trainer::backend::cuda {

using PackedWeights = backend::PackedWeights<Buffer, void(cudaStream_t)>;

class CudaVariables final : public PlacedVariables {
 public:
  // `synchronize` waits until the device has done what was launched. Those of the planned device
  // hold nothing: reads give zeros.
  CudaVariables(const graph::Graph& graph, int device, std::function<void()> synchronize,
                Progress progress);

  void read(std::string_view name, std::span<float> to) const override;
  void write(std::string_view name, std::span<const float> from) override;
  void read_flat(FlatBuffer which, std::int64_t first, std::span<float> to) const override;
  void write_flat(FlatBuffer which, std::int64_t first, std::span<const float> from) override;

  int device() const { return device_; }
  PackedWeights& packed_weights() { return packed_weights_; }
  // Memory for activations, shared by the executables of a model, of which one runs at a time.
  // Memory handed out before stays valid.
  std::byte* arena(std::int64_t bytes);
  std::int64_t arena_bytes() const;

 private:
  void copy(void* to, const void* from, std::size_t count, cudaMemcpyKind kind) const;

  int device_;
  std::function<void()> synchronize_;
  Progress progress_;
  std::vector<Buffer> buffers_, arenas_;
  StreamHandle stream_;  // reads and writes use it
  PackedWeights packed_weights_;
};

}  // namespace trainer::backend::cuda
