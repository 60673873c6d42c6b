// A graph lowered for one worker and one number of samples: buffers in an arena and a flat list of
// steps. Everything is looked up, chosen and allocated here; running only runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/fuse/groups.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/cpu/lanes/phase_clock.h"
#include "backend/cpu/lanes/worker_threads.h"
#include "backend/cpu/simd/amx.h"
#include "backend/cpu/simd/kernels.h"
#include "backend/cpu/variables.h"
#include "graph/graph.h"

namespace trainer::backend::cpu {

// Physical layouts of activations. Blocked: [n, ceil(c / block), h, w, block], channels padded with
// zeros; every 4-D activation except images of few channels. Plain: row-major logical order.
// Planar: [n, c, h, w], images of few channels.
enum class Layout { kPlain, kBlocked, kPlanar };
const char* to_string(Layout layout);

// Index into a program's table of pointers.
using Buffer = int;

// The rows of a joint layer: the micro-batches that all workers run at once, in worker order.
struct JointRound {
  std::int64_t first = 0;    // row of this worker's first sample
  std::int64_t samples = 0;  // of all workers
  bool add = false;          // to the gradient of the rounds before
};

// What steps see while running.
struct RunContext {
  char* const* pointers = nullptr;
  std::int64_t samples = 0;
  std::uint64_t first_sample = 0;  // position of this program's first sample in the global batch
  const Scalars* scalars = nullptr;
  int worker = 0;
  int workers = 1;    // workers that run together
  bool first = true;  // the first worker's first micro-batch: what is done once is done here
  int threads = 1;    // of the worker
  Barrier* barrier = nullptr;
  std::vector<void*>* exchange = nullptr;  // one pointer a worker, for sums over all workers
  std::int64_t all_samples = 0;            // of all workers, and of all ranks with `statistics`
  // Samples that count in batch statistics: all, or none where a program runs only so that this
  // rank takes part in the other ranks' exchange.
  std::int64_t counted = 0;
  cluster::Communicator* statistics = nullptr;  // batch statistics of all ranks; used by worker 0
  std::vector<double>* numbers = nullptr;       // of all workers, what worker 0 got from the ranks
  PhaseClock* clock = nullptr;                  // worker 0's
  JointRound round;

  template <class T>
  T* at(Buffer buffer) const {
    return reinterpret_cast<T*>(pointers[buffer]);
  }
};

using Run = std::function<void(const RunContext&)>;

struct Step {
  std::string name;            // of the layer
  std::string implementation;  // for printing
  graph::Phase phase = graph::Phase::kForward;
  Run run;
};

// An operand of a step: where it lies and how.
struct Operand {
  Buffer buffer = -1;
  Layout layout = Layout::kPlain;
  DType type = DType::kFloat32;
  Shape shape;  // logical, with the number of samples filled in

  std::int64_t n() const { return shape[0]; }
  std::int64_t h() const { return shape[1]; }
  std::int64_t w() const { return shape[2]; }
  std::int64_t c() const { return shape[shape.rank() - 1]; }
};

// Facts that all lowering shares.
struct Machine {
  const simd::Kernels* kernels = nullptr;
  std::int64_t block = 16;  // channels in a block
  bool bf16 = false;
  const simd::AmxKernels* amx = nullptr;  // null: none
  int threads = 1;                        // of a worker
  std::string isa;

  // Whether work that threads divide by blocks of channels has at least one block per thread.
  bool keeps_threads_busy(std::int64_t channels) const { return channels > (threads - 1) * block; }
};

// What a lowered program needs at run time.
struct Lowered {
  std::vector<Step> steps;
  std::size_t backward_begin = 0;     // the first step of the backward phase
  std::size_t update_begin = 0;       // steps from here on are of the update phase: moving averages
  std::vector<char*> pointers;        // table, complete after bind()
  std::vector<std::int64_t> offsets;  // arena offset of each buffer, or -1 when it lies elsewhere
  std::int64_t arena_bytes = 0;
  struct Port {
    Buffer buffer = -1;               // -1: not read
    std::int64_t bytes_a_sample = 0;  // 0: not batched, the whole value
    std::int64_t bytes = 0;
  };
  std::vector<Port> inputs;   // read in place
  std::vector<Port> outputs;  // plain
  std::vector<PackedWeights::Entry*> packed_weights;
  std::vector<Memory> constants;
  // By offset into the flat buffers: the last step that writes this parameter's gradient.
  std::map<std::int64_t, int> gradient_steps;
  // (step, bucket): after the step all gradients of the bucket are written. By step.
  std::vector<std::pair<int, std::size_t>> bucket_steps;
  std::int64_t samples = 0;

  void bind(char* arena);
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

// Whether one op alone reads the value, so that it may write over its memory.
bool has_one_reader(const graph::Graph& graph, graph::ValueId id);

class Lowering {
 public:
  Lowering(const graph::Graph& graph, std::int64_t samples, const Machine& machine,
           CpuVariables& variables, const GradientPlaces& gradients, const CompileOptions& options);

  // Lowers the forward and backward phases.
  Lowered lower();

  // ---- For the lowering of single ops and groups ----
  const Machine& machine() const { return machine_; }
  const simd::Kernels& kernels() const { return *machine_.kernels; }
  ConvolutionAlgorithm convolution() const { return options_.convolution; }
  bool same_for_any_batch() const { return options_.same_for_any_batch; }
  std::int64_t samples() const { return samples_; }
  const graph::Graph& graph() const { return graph_; }
  const graph::Node& node() const { return *node_; }
  std::size_t input_count() const { return node_->inputs.size(); }
  // Input i in `wanted` layout; inserts a conversion where it lies otherwise.
  Operand input(std::size_t i, Layout wanted);
  // A value of the graph, in `wanted` layout. Throws std::logic_error if no step before this one
  // makes it.
  Operand value(graph::ValueId id, Layout wanted);
  // Input i in the layout it has.
  Operand input_as_is(std::size_t i);
  // result() for output i.
  Operand output(std::size_t i, Layout layout) { return result(node_->outputs[i], layout); }
  // Output i is the same memory as `operand` (reshapes).
  void alias_output(std::size_t i, const Operand& operand);
  bool output_wanted(std::size_t i) const;
  // A value that this op makes, in `layout` unless the value already has a layout. Persistent
  // values and gradients lie in their flat buffers, all others in the arena.
  Operand result(graph::ValueId id, Layout layout);
  // Allocates a value that this fused op makes for later ones.
  Buffer make_extra(ExtraId id, std::int64_t bytes);
  // A value that an earlier fused op has made. Throws std::logic_error if none has.
  Buffer extra(ExtraId id);
  Shape shape_of_input(std::size_t i) const;  // logical, with the number of samples filled in
  DType type_of_output(std::size_t i) const;
  // Memory used by the next step, and by later ones that name it in reuse().
  Buffer scratch(std::int64_t bytes);
  void reuse(Buffer buffer) { use(buffer); }
  // Zeros that nothing writes.
  Buffer zeros(std::int64_t bytes);
  // Elements that an operand takes, channel padding included.
  std::int64_t padded_elements(const Shape& shape, Layout layout) const;
  // A persistent or prepared input in another format, rebuilt whenever the variables change.
  // `prepare` is called once, with the places, and returns what does the work.
  using Prepare = std::function<std::function<void()>(const float* from, char* to)>;
  Buffer packed_weights(std::size_t i, const std::string& key, std::int64_t bytes,
                        const Prepare& prepare);
  // Marks output i as prepared: built of persistent inputs by what `create` returns, whenever they
  // change. `create` is called once, with the place of the output.
  void prepare_output(std::size_t i, const std::function<std::function<void()>(float* to)>& create);
  float* persistent(std::size_t i);  // place of a persistent or prepared input
  // Ends the lowering of one piece of work; what was asked for since the last is used by it.
  void step(const std::string& implementation, Run run);

 private:
  void lower_phases(graph::Phase first, graph::Phase last);
  Operand place(graph::ValueId id, Layout layout);
  Operand convert(graph::ValueId id, const Operand& from, Layout wanted);
  Buffer new_buffer(std::int64_t bytes);
  Buffer fixed_buffer(const void* pointer);
  void use(Buffer buffer);
  void check_made(graph::ValueId id) const;
  void plan_memory(Lowered& lowered);
  void place_inputs(Lowered& lowered);
  void place_outputs(Lowered& lowered);
  void find_gradient_steps(Lowered& lowered) const;
  bool is_prepared(graph::ValueId id) const { return prepared_.contains(id); }
  std::string prepared_key(graph::ValueId id) const;
  bool changed_by_training(graph::ValueId id) const;

  const graph::Graph& graph_;
  std::int64_t samples_;
  const Machine& machine_;
  CpuVariables& variables_;
  GradientPlaces gradients_;
  CompileOptions options_;

  std::vector<Group> groups_;
  const graph::Node* node_ = nullptr;  // the node that is lowered, or that names its group
  const char* op_name_ = "";           // of the node or the group
  std::map<graph::ValueId, std::vector<Operand>> placed_;
  std::vector<bool> used_;  // values that some node or the caller reads
  std::map<ExtraId, Buffer> extras_;
  std::map<graph::ValueId, float*> prepared_;
  std::vector<PackedWeights::Entry*> packed_weights_;
  std::vector<Memory> constants_;
  struct BufferInfo {
    std::int64_t bytes = 0;     // 0: fixed
    char* pointer = nullptr;    // fixed
    int first = -1, last = -1;  // steps
  };
  std::vector<BufferInfo> buffers_;
  std::vector<Buffer> pending_;
  std::vector<Step> steps_;
};

// Lowers one op or one group of fuse/groups.h. Each op of graph::Op and each fused op has a
// specialisation in the file of its name in ops/. There is no general definition, so that an op
// without a specialisation does not link.
template <class OpOrGroup>
void lower(const OpOrGroup& op, Lowering& l);

}  // namespace trainer::backend::cpu
