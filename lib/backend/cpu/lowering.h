// The lowering of a graph on the CPU, for one lane and one number of samples: what
// backend/lowering/lowering.h leaves to a backend, and what ops need.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/cpu/lanes/phase_clock.h"
#include "backend/cpu/lanes/worker_threads.h"
#include "backend/cpu/simd/amx.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/cpu/variables.h"
#include "backend/lowering/lowering.h"
#include "graph/graph.h"

namespace trainer::backend::cpu {

// Physical layouts of activations. Blocked: [n, ceil(c / block), h, w, block], channels padded with
// zeros; every 4-D activation except images of few channels. Plain: row-major logical order.
// Planar: [n, c, h, w], images of few channels.
enum class Layout { kPlain, kBlocked, kPlanar };
const char* to_string(Layout layout);

// The rows of a joint layer: the micro-batches that all workers run at once, in worker order.
struct JointRound {
  std::int64_t first = 0;    // row of this worker's first sample
  std::int64_t samples = 0;  // of all workers
  bool add = false;          // to the gradient of the rounds before
};

// What steps see while running.
struct StepContext : BufferPointers {
  std::int64_t samples = 0;
  std::uint64_t first_sample = 0;  // position of this program's first sample in the global batch
  const Scalars* scalars = nullptr;
  int worker = 0;
  int workers = 1;    // workers that run together
  bool first = true;  // the first worker's first micro-batch: what is done once is done here
  int threads = 1;    // of the worker
  Barrier* barrier = nullptr;
  std::vector<void*>* exchange = nullptr;  // one pointer per worker, for sums over all workers
  std::int64_t all_samples = 0;            // of all workers, and of all ranks with `statistics`
  // Samples that count in batch statistics: all, or none where a program runs only so that this
  // rank takes part in the other ranks' exchange.
  std::int64_t counted = 0;
  cluster::Communicator* statistics = nullptr;  // batch statistics of all ranks; used by worker 0
  std::vector<double>* numbers = nullptr;       // of all workers, what worker 0 got from the ranks
  PhaseClock* clock = nullptr;                  // worker 0's
  JointRound round;
};

using Step = ProgramStep<StepContext>;

// Operands differ in their layouts. Persistent values and gradients are plain.
struct Operand : backend::Operand {
  Layout layout = Layout::kPlain;

  Layout format() const { return layout; }
  void set_format(Layout format) { layout = format; }
};

// Facts that all lowering shares.
struct Machine {
  const simd::Kernels* kernels = nullptr;
  std::int64_t block = 16;  // channels in a block
  bool bf16 = false;
  const simd::AmxKernels* amx = nullptr;  // null: none
  int threads = 1;                        // of a worker
  std::string isa;

  // True if work that threads divide by blocks of channels has at least one block per thread.
  bool keeps_threads_busy(std::int64_t channels) const { return channels > (threads - 1) * block; }
};

// A worker's gradients: of element i of the flat gradient.
struct GradientPlaces {
  float* own = nullptr;          // of all but the joint layers; null: no place in a flat buffer
  JointLayers* joint = nullptr;  // of all workers; null: none

  float* at(std::int64_t i) const {
    const std::int64_t joined = joint == nullptr ? 0 : joint->gradient_count();
    return i < joined ? joint->gradient() + i : own + (i - joined);
  }
};

// True if one op alone reads the value, so that it may write over its memory.
bool has_one_reader(const graph::Graph& graph, graph::ValueId id);

struct CpuPolicy {
  using Operand = cpu::Operand;
  using Format = Layout;
  using Context = StepContext;
  using Group = cpu::Group;
  using Memory = cpu::Memory;
  using PackedWeights = cpu::PackedWeights;
  using Variables = CpuVariables;
  static constexpr std::int64_t kAlignment = cpu::kAlignment, kSizeUnit = cpu::kAlignment;
  static Layout plain_format(const graph::Value&) { return Layout::kPlain; }
  static std::byte* address(const Memory& memory) { return memory.as<std::byte>(); }
  static const char* name(const Group& group) { return name_of(group); }
};

// A program with its table of pointers.
struct Lowered : Program<CpuPolicy> {
  std::vector<std::byte*> pointers;                       // those of inputs are set before a run
  std::vector<std::pair<int, std::size_t>> bucket_steps;  // find_bucket_steps()
};

class Lowering : public backend::Lowering<CpuPolicy> {
 public:
  Lowering(const graph::Graph& graph, std::int64_t samples, const Machine& machine,
           CpuVariables& variables, const GradientPlaces& gradients, const CompileOptions& options);

  const Machine& machine() const { return machine_; }
  const simd::Kernels& kernels() const { return *machine_.kernels; }
  ConvolutionAlgorithm convolution() const { return options_.convolution; }
  bool same_for_any_batch() const { return options_.same_for_any_batch; }
  // Allocates a value that this fused op makes for later ones.
  BufferId make_extra(ExtraId id, std::int64_t bytes);
  // Returns a value that an earlier fused op has made. Throws std::logic_error if none has.
  BufferId extra(ExtraId id);
  // Returns zeros that no step writes.
  BufferId zeros(std::int64_t bytes) { return add_constant(Memory(bytes)); }
  // Returns the number of elements that an operand takes, channel padding included.
  std::int64_t padded_elements(const Shape& shape, Layout layout) const;

 private:
  void lower_group(const Group& group) override;
  std::int64_t arena_bytes(const Operand& operand) const override;
  void convert_value(const graph::Value& value, const Operand& from, const Operand& to) override;
  bool has_same_memory(const Operand& from, Layout wanted) const override;
  std::optional<BufferSource> gradient_source(std::int64_t offset) const override;
  BufferId output_buffer(graph::ValueId id) override;
  Memory allocate(std::int64_t bytes) const override { return Memory(bytes); }

  const Machine& machine_;
  GradientPlaces gradients_;
  CompileOptions options_;
  std::map<ExtraId, BufferId> extras_;
};

// Lowers one op or one group of fuse/groups.h. Each op of graph::Op and each fused op has a
// specialisation in the file of its name in ops/. There is no general definition, so that an op
// without a specialisation does not link.
template <class OpOrGroup>
void lower(const OpOrGroup& op, Lowering& l);

}  // namespace trainer::backend::cpu

namespace trainer::backend {
extern template class Lowering<cpu::CpuPolicy>;
}  // namespace trainer::backend
