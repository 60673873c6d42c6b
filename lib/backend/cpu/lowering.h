// The lowering of a graph on the CPU for one lane and one number of samples: the parts that
// backend/lowering/lowering.h leaves to a backend, and helpers for ops.
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
#include "backend/cpu/simd/amx.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/cpu/variables.h"
#include "backend/lowering/lowering.h"
#include "base/process/progress.h"
#include "base/spelling.h"
#include "base/threads/barrier.h"
#include "graph/graph.h"

namespace trainer::backend::cpu {

// Physical layouts of activations. kBlocked is [n, ceil(c / block), h, w, block] with channels
// padded with zeros, the layout of every 4-D activation except images of few channels. kPlain is
// row-major logical order. kPlanar is [n, c, h, w], for images of few channels.
enum class Layout { kPlain, kBlocked, kPlanar };
constexpr auto spellings(Layout) {
  using enum Layout;
  return std::to_array<Spelling<Layout>>(
      {{kPlain, "plain"}, {kBlocked, "blocked"}, {kPlanar, "planar"}});
}

// The rows of a joint layer: the micro-batches that all lanes run at once, in lane order.
struct JointBatch {
  std::int64_t first = 0;    // the row of this lane's first sample
  std::int64_t samples = 0;  // the samples of all lanes
  bool add = false;          // adds to the gradient of the batches before
};

// The state that an instruction reads while it runs.
struct CallContext : BufferPointers {
  std::int64_t samples = 0;
  std::uint64_t first_sample = 0;  // position of this program's first sample in the global batch
  const Scalars* scalars = nullptr;
  int lane = 0;
  int lanes = 1;      // lanes that run together
  bool first = true;  // the first micro-batch of the first lane, which does work that is done once
  int threads = 1;    // threads of the lane
  Barrier* barrier = nullptr;
  std::vector<void*>* exchange = nullptr;  // one pointer per lane, for sums over all lanes
  std::int64_t all_samples = 0;  // samples of all lanes, and of all ranks with `statistics`
  // The samples that count in batch statistics: all samples, or none if a program runs only so that
  // this rank takes part in the exchange of the other ranks.
  std::int64_t counted = 0;
  cluster::Communicator* statistics = nullptr;  // ranks of batch statistics; lane 0 uses it
  std::vector<double>* numbers = nullptr;       // all lanes read what lane 0 received from ranks
  PhaseClock* clock = nullptr;                  // null except in lane 0
  JointBatch joint_batch;
};

using Instruction = backend::Instruction<CallContext>;

// Operands differ in their layouts. Persistent values and gradients are plain.
struct Operand : backend::Operand {
  Layout layout = Layout::kPlain;

  Layout format() const { return layout; }
  void set_format(Layout format) { layout = format; }
};

// The properties of this machine that the lowering depends on.
struct Machine {
  const simd::Kernels* kernels = nullptr;
  std::int64_t block = 16;  // channels per block
  bool bf16 = false;
  double bf16_rate = 1;                   // multiply-adds in bfloat16 per one in float32
  const simd::AmxKernels* amx = nullptr;  // null: AMX is not used
  int threads = 1;                        // threads per lane
  std::string isa;
  Progress progress;  // advances with the layers

  std::int64_t count_blocks(std::int64_t channels) const { return (channels + block - 1) / block; }
  // True if work that threads divide by blocks of channels has at least one block per thread.
  bool keeps_threads_busy(std::int64_t channels) const { return channels > (threads - 1) * block; }
};

// The places of a lane's gradients.
struct GradientPlaces {
  float* own = nullptr;          // all gradients but those of joint layers; null: none
  JointLayers* joint = nullptr;  // the joint layers of all lanes; null: none

  // Returns false if gradients are not in a buffer. A model may have joint layers only.
  bool exist() const { return own != nullptr || joint != nullptr; }

  // Returns the place of element i of the flat gradient.
  float* at(std::int64_t i) const {
    const std::int64_t joined = joint == nullptr ? 0 : joint->gradient_count();
    return i < joined ? joint->gradient() + i : own + (i - joined);
  }
};

// Returns whether only one op reads the value, so that this op may write over its memory.
bool has_one_reader(const graph::Graph& graph, graph::ValueId id);

struct CpuPolicy {
  using Operand = cpu::Operand;
  using Format = Layout;
  using Context = CallContext;
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
  std::vector<std::byte*> pointers;                      // inputs are set before a run
  std::vector<std::pair<int, std::size_t>> bucket_ends;  // find_bucket_ends()
};

class Lowering : public backend::Lowering<CpuPolicy> {
 public:
  Lowering(const graph::Graph& graph, std::int64_t samples, const Machine& machine,
           CpuVariables& variables, const GradientPlaces& gradients, const CompileOptions& options);

  const Machine& machine() const { return machine_; }
  const simd::Kernels& kernels() const { return *machine_.kernels; }
  ConvolutionAlgorithm convolution() const { return options_.convolution; }
  bool trains() const { return gradients_.exist(); }
  bool same_for_any_batch() const { return options_.same_for_any_batch; }
  // Allocates a value that this fused op makes for later ones; with kNoExtra, one for itself.
  BufferId make_extra(ExtraId id, std::int64_t bytes);
  // Returns a value that an earlier fused op has made. Throws std::logic_error if none has.
  BufferId extra(ExtraId id);
  // Returns zeros that no instruction writes.
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
