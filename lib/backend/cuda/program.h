// A graph lowered for one device and one number of samples: buffers in an arena and a flat list of
// steps that enqueue kernels. Everything is looked up, planned and allocated here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/arena.h"
#include "backend/backend.h"
#include "backend/cuda/collectives/collective.h"
#include "backend/cuda/fuse/groups.h"
#include "backend/cuda/kernels/step.h"
#include "backend/cuda/machine.h"
#include "backend/cuda/variables.h"
#include "graph/graph.h"

namespace trainer::backend::cuda {

// Index into a program's table of pointers.
using BufferId = int;

// What steps see while they enqueue.
struct StepContext {
  std::byte* const* pointers = nullptr;
  cudaStream_t stream = nullptr;
  std::int64_t first_sample = 0;  // position of the program's first sample in the call
  const StepScalars* scalars = nullptr;
  StepState* state = nullptr;
  // False where a program runs only so that this rank takes part in the other ranks' batch
  // statistics: its samples count as none.
  bool counted = true;

  template <class T = void>
  T* at(BufferId buffer) const {
    return reinterpret_cast<T*>(pointers[buffer]);
  }
};

using Enqueue = std::function<void(const StepContext&)>;

struct ProgramStep {
  std::string name;            // of the layer
  std::string implementation;  // for printing
  graph::Phase phase = graph::Phase::kForward;
  std::int64_t workspace = 0;  // bytes of the arena that it alone uses
  Enqueue enqueue;
};

// An operand of a step: where it lies, row-major in its logical layout.
struct Operand {
  BufferId buffer = -1;
  DType type = DType::kFloat32;
  Shape shape;  // with the number of samples filled in

  std::int64_t n() const { return shape[0]; }
  std::int64_t h() const { return shape[1]; }
  std::int64_t w() const { return shape[2]; }
  std::int64_t c() const { return shape[shape.rank() - 1]; }
  std::int64_t elements() const { return shape.elements(); }
  std::int64_t rows() const { return elements() / c(); }
  std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(type)); }
};

// Where the pointer of a table entry comes from.
struct BufferSource {
  enum class Kind { kArena, kFixed, kGradient, kInput } kind = Kind::kFixed;
  std::int64_t offset = 0;     // kArena, kGradient: bytes; kInput: which
  std::byte* fixed = nullptr;  // kFixed
};

struct Program {
  std::int64_t samples = 0;
  std::vector<ProgramStep> steps;       // forward and backward
  std::vector<ProgramStep> statistics;  // of the update phase: moving statistics
  std::vector<BufferSource> sources;
  std::int64_t arena_bytes = 0;
  std::byte* arena = nullptr;
  struct Port {
    BufferId buffer = -1;             // -1: not read
    std::int64_t bytes_a_sample = 0;  // 0: not batched
    std::int64_t bytes = 0;
  };
  std::vector<Port> inputs, outputs;
  std::vector<PackedWeights::Entry*> packed;  // in the order in which they are made
  std::vector<Buffer> constants;
  // (step, offset into the flat buffers): after the step this parameter's gradient is written.
  std::vector<std::pair<int, std::int64_t>> gradient_steps;

  // The table for one run: inputs at these places, gradients at this flat buffer.
  std::vector<std::byte*> pointers(const std::vector<std::byte*>& inputs, float* gradients) const;
};

class Lowering {
 public:
  Lowering(const graph::Graph& graph, std::int64_t samples, Machine& machine,
           CudaVariables& variables, const CompileOptions& options);

  Program lower();

  // ---- For the lowering of single ops ----
  Machine& machine() const { return machine_; }
  bool tf32() const { return options_.tf32; }
  std::int64_t samples() const { return samples_; }
  const graph::Node& node() const { return *node_; }
  std::size_t input_count() const { return node_->inputs.size(); }
  // A value that the next step reads or writes, as it lies.
  Operand value(graph::ValueId id);
  // Input i as it lies.
  Operand input(std::size_t i) { return value(node_->inputs[i]); }
  // Input i in this type; inserts a conversion where it is of another.
  Operand input_as(std::size_t i, DType type);
  Operand output(std::size_t i) { return value(node_->outputs[i]); }
  // Output i is the same memory as `operand`.
  void alias_output(std::size_t i, const Operand& operand);
  Shape input_shape(std::size_t i) const;  // with the number of samples filled in
  DType output_type(std::size_t i) const { return graph_[node_->outputs[i]].type; }
  // Memory used by the next step.
  BufferId scratch(std::int64_t bytes);
  // The next step uses this buffer too.
  void use(BufferId buffer) { pending_.push_back(buffer); }
  // Float32 numbers in device memory.
  BufferId constant(const std::vector<float>& values);
  // Persistent input i in the type, the same layout.
  BufferId packed_vector(std::size_t i, DType type);
  // The kernel of a convolution, input i, as [out][positions][in] in the type.
  BufferId packed_kernel(std::size_t i, DType type, std::int64_t positions, std::int64_t in,
                         std::int64_t out);
  // Marks the outputs as made from persistent inputs, before calls: `make` gets their places.
  void prepare_outputs(
      const std::function<PackedWeights::Make(const std::vector<float*>& to)>& make);
  float* persistent(std::size_t i) const;  // place of a persistent or prepared input
  // Ends the lowering of one piece of work; what was asked for since the last is used by it.
  void step(const std::string& implementation, Enqueue enqueue);
  // The ranks that batch statistics are taken over; null: this one alone.
  CudaCollective* statistics_ranks() const { return statistics_ranks_; }

 private:
  void lower_groups(bool update_phase);
  Operand place(graph::ValueId id);
  BufferId add_buffer(BufferSource source, std::int64_t bytes);
  BufferId packed(std::size_t i, const std::string& key, std::int64_t bytes,
                  const std::function<PackedWeights::Make(const float* from, std::byte* to)>& make);
  std::string key_of(graph::ValueId id) const;
  bool changed_by_training(graph::ValueId id) const;
  void place_inputs(Program& program);
  void place_outputs(Program& program);
  void plan_memory(Program& program);
  void find_gradient_steps(Program& program) const;

  struct BufferInfo {
    BufferSource source;
    std::int64_t bytes = 0;
    int first = -1, last = -1;  // steps
  };

  const graph::Graph& graph_;
  std::int64_t samples_;
  Machine& machine_;
  CudaVariables& variables_;
  const CompileOptions& options_;
  CudaCollective* statistics_ranks_;
  std::vector<Group> groups_;

  const graph::Node* node_ = nullptr;  // the node that is lowered, or that names its group
  std::map<graph::ValueId, Operand> placed_;
  std::map<std::pair<graph::ValueId, DType>, Operand> converted_;
  std::map<graph::ValueId, float*> prepared_;
  std::vector<bool> used_;  // values that some node or the caller reads
  std::vector<BufferInfo> buffers_;
  std::vector<BufferId> pending_;
  std::int64_t pending_scratch_ = 0;  // bytes asked for by the next step
  std::vector<ProgramStep> steps_;
  std::vector<PackedWeights::Entry*> packed_;
  std::vector<Buffer> constants_;
};

// Lowers one op or one group of fuse/groups.h. Each op of graph::Op has a specialisation in the
// file of its name in lower/, and each group has one in the file of its pattern's name. There is no
// general definition, so that an op without a specialisation does not link.
template <class OpOrGroup>
void lower(const OpOrGroup& op, Lowering& l);

}  // namespace trainer::backend::cuda
