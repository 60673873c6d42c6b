// The lowering of a graph for one CUDA device and one number of samples: what
// backend/lowering/lowering.h leaves to a backend, and what ops need. Instructions enqueue kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/fuse/groups.h"
#include "backend/cuda/kernels/batch_norm.h"
#include "backend/cuda/kernels/layout.h"
#include "backend/cuda/kernels/step.h"
#include "backend/cuda/machine.h"
#include "backend/cuda/variables.h"
#include "backend/lowering/lowering.h"
#include "graph/graph.h"

namespace trainer::backend::cuda {

// The arguments of instructions while they enqueue.
struct CallContext : BufferPointers {
  cudaStream_t stream = nullptr;
  std::int64_t first_sample = 0;  // position of the program's first sample in the call
  const StepScalars* scalars = nullptr;
  StepState* state = nullptr;
  // False where a program runs only so that this rank takes part in the other ranks' batch
  // statistics: its samples count as none.
  bool counted = true;
};

// Operands are row-major in their logical layout, and differ in their types.
struct Operand : backend::Operand {
  DType format() const { return type; }
  void set_format(DType format) { type = format; }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t rows() const { return elements() / c(); }
  std::int64_t bytes() const { return value_bytes(); }
};

struct CudaPolicy {
  using Operand = cuda::Operand;
  using Format = DType;
  using Context = CallContext;
  using Group = cuda::Group;
  using Memory = Buffer;
  using PackedWeights = cuda::PackedWeights;
  using Variables = CudaVariables;
  // cudaMalloc's own alignment, which vector loads and cuDNN count on.
  static constexpr std::int64_t kAlignment = 256, kSizeUnit = 1;
  static DType plain_format(const graph::Value& value) { return value.type; }
  static std::byte* address(const Memory& memory) { return memory.span().address; }
  static const char* name(const Group& group);
};

using Program = backend::Program<CudaPolicy>;
using Instruction = Program::Instruction;

// Makes a copy of parameters for cuDNN or cuBLASLt: PackedWeights::Entry::make.
struct PackParameters {
  KernelLayouts layouts;  // a vector has one position and one input
  DType type = DType::kFloat32;

  void operator()(cudaStream_t stream) const;
  std::int64_t elements() const { return layouts.positions * layouts.in * layouts.out; }
  // Returns whether pack_kernels() makes it, with many others in one launch.
  bool is_batched() const;
};
// Makes all entries, which are sorted by their order.
void make_entries(std::span<PackedWeights::Entry* const> entries, cudaStream_t stream);

// The gradient of a kernel as cuDNN writes it, and where it goes.
struct KernelGradient {
  BufferId packed = -1, unpacked = -1;
  DType type = DType::kFloat32;  // the element type of `packed`
  std::int64_t positions = 0, in = 0, out = 0;

  KernelLayouts layouts(const BufferPointers& c) const {
    return {c.at<float>(unpacked), c.at(packed), positions, in, out};
  }
};
// The operands of graph::UpdateStatistics.
struct StatisticsPlaces {
  BufferId mean = -1, variance = -1, batch_mean = -1, batch_inverse_std = -1;
  std::int32_t c = 0;
  float momentum = 0, epsilon = 0;
};

class Lowering : public backend::Lowering<CudaPolicy> {
 public:
  Lowering(const graph::Graph& graph, std::int64_t samples, Machine& machine,
           CudaVariables& variables, const CompileOptions& options);

  Machine& machine() const { return machine_; }
  bool tf32() const { return options_.tf32; }
  // Returns float32 numbers in device memory.
  BufferId constant(const std::vector<float>& values);
  // Returns persistent input i converted to `type`, in the same layout.
  BufferId packed_vector(std::size_t i, DType type);
  // Returns the kernel of a convolution, input i, as [out][positions][in], converted to `type`.
  BufferId packed_kernel(std::size_t i, DType type, std::int64_t positions, std::int64_t in,
                         std::int64_t out);
  // Does what prepare_output() does, for all outputs by one function.
  void prepare_outputs(const std::function<Make(const std::vector<float*>& to)>& create);
  // Unpacks the gradient of a kernel, output i, together with those of other layers, in an
  // instruction after all of them, until when the packed gradients stay in memory (47 MB for
  // ResNet50). Returns false if the graph reads it before the update, or if buckets are summed
  // during backward, because the bucket of the gradient waits for it: the caller unpacks.
  bool unpack_later(std::size_t i, const KernelGradient& gradient);
  // Returns whether output i lies in the flat gradient.
  bool is_flat_gradient(std::size_t i) const;
  // Updates moving statistics together with those of other layers, in an instruction after all of
  // them.
  void update_statistics_later(const StatisticsPlaces& places) { statistics_.push_back(places); }
  // The ranks that batch statistics are taken over; null: this one alone.
  CudaCollective* statistics_ranks() const { return statistics_ranks_; }
  // The masks of kernels/batch_norm.h, by the values that they belong to.
  struct Mask {
    BufferId buffer = -1;
    std::int64_t bytes = 0;
  };
  std::map<graph::ValueId, Mask>& masks() { return masks_; }

 private:
  void lower_group(const Group& group) override;
  std::int64_t arena_bytes(const Operand& operand) const override { return operand.bytes(); }
  void convert_value(const graph::Value& value, const Operand& from, const Operand& to) override;
  bool has_same_memory(const Operand&, DType) const override { return false; }
  std::optional<BufferSource> gradient_source(std::int64_t offset) const override;
  BufferId output_buffer(graph::ValueId id) override { return value(id).buffer; }
  Buffer allocate(std::int64_t bytes) const override;
  void unpack_gradients();
  void update_moving_statistics();

  Machine& machine_;
  const CudaVariables& variables_;
  const CompileOptions& options_;
  CudaCollective* statistics_ranks_;
  std::vector<KernelGradient> gradients_;     // still packed
  std::vector<StatisticsPlaces> statistics_;  // those that are not updated yet
  std::map<graph::ValueId, Mask> masks_;
  // Nodes that are not lowered yet.
  std::int64_t kernel_gradients_left_ = 0, statistics_left_ = 0;
};

// Lowers one op or one group of fuse/groups.h. Each op of graph::Op has a specialisation in the
// file of its name in lower/, and each group has one in the file of its pattern's name. There is no
// general definition, so that an op without a specialisation does not link.
template <class OpOrGroup>
void lower(const OpOrGroup& op, Lowering& l);

}  // namespace trainer::backend::cuda

namespace trainer::backend {
extern template class Lowering<cuda::CudaPolicy>;
}  // namespace trainer::backend
