// What executes graphs. A backend keeps a model's variables and turns graphs into executables.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/communicator.h"
#include "compile/compile.h"
#include "graph/graph.h"

namespace trainer::backend {

// A contiguous run of trained elements: one parameter with its rule.
struct Segment {
  std::string parameter;
  std::int64_t offset = 0;  // into the flat parameter, gradient and slot buffers
  std::int64_t count = 0;
  graph::Update update;
  int slots = 0;
  bool average = false;
};

// What training steps change, as flat float32 buffers: all trained parameters, their first slots,
// second slots, ..., their averages, each of `count` elements in the order of the segments, with
// gaps between these; and the moving statistics one after another.
struct Flat {
  std::vector<Segment> segments;
  std::int64_t count = 0;
  int slots = 0;
  bool average = false;
  std::int64_t statistics = 0;  // elements
};
struct FlatBuffer {
  enum class Kind { kParameters, kSlot, kAverage, kStatistics } kind = Kind::kParameters;
  int slot = 0;
};

// The kept values of a model on a device: parameters, statistics, optimizer slots, averages. Shared
// by the executables compiled with them. Read and write in logical layout, float32.
class Variables {
 public:
  virtual ~Variables() = default;
  virtual const std::vector<graph::Value>& values() const = 0;
  virtual void read(std::string_view name, std::span<float> to) const = 0;
  virtual void write(std::string_view name, std::span<const float> from) = 0;
  // The same values, flat: elements [first, first + size) of a buffer.
  virtual Flat flat() const = 0;
  virtual void read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const = 0;
  virtual void write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) = 0;
};

// What an update needs besides the parameters and slots.
struct Gradient {
  std::span<const float> values;       // flat
  std::span<const float> clip_scales;  // one a segment, of optimizer.clip_norm; empty: all 1
};

// The run-time scalars of one step.
struct Scalars {
  float learning_rate = 0;
  std::uint64_t update = 1;        // 1-based number of the update, Adam's t
  double loss_scale = 1;           // 1 / true samples of the global batch
  std::uint64_t first_sample = 0;  // position of this call's first sample in the global batch
  // Samples of all ranks' calls together; 0: those of this call. With several ranks, this one's are
  // [n * rank / size, n * (rank + 1) / size) of these n, which may be none.
  std::int64_t all_samples = 0;
  bool accumulate = false;  // add to the gradients of the calls before instead of replacing them
  bool apply = true;        // update the parameters; moving averages follow every call
};

struct MemoryReport {
  std::int64_t variables = 0;  // bytes of parameters, statistics, slots
  std::int64_t gradients = 0;
  std::int64_t activations = 0;  // arenas
  std::int64_t derived = 0;      // reordered and folded weights
};

// A graph compiled for up to `max_samples` samples a call.
class Executable {
 public:
  virtual ~Executable() = default;
  // `inputs` and `outputs` in the order of the graph's; batched ones hold `samples` samples, rows
  // packed, logical layout, inputs in the value's type, outputs in float32. A null output is not
  // copied. Blocks until done.
  virtual void run(std::int64_t samples, std::span<const void* const> inputs,
                   std::span<float* const> outputs, const Scalars& scalars) = 0;
  // Whether the guarded output of the last call was finite: of this rank, or of all ranks when the
  // call updates. No rank updates unless all were, those of the calls it accumulates included.
  virtual bool finite() const = 0;
  // Of the last call, which did not update (Scalars::apply), and those it accumulated. There must
  // be no communicator. Valid until the next call.
  virtual Gradient gradient() = 0;
  virtual MemoryReport memory() const = 0;
  // One line a step: what runs, in which layout, by which implementation.
  virtual void print(std::ostream& out) const = 0;
};

// How the gradients of several ranks become one update. Every rank makes the same calls.
struct ReductionOptions {
  // Sums over the ranks; null: there is one. Must outlive the executable.
  cluster::Communicator* communicator = nullptr;
  // A duplicate of it: batch norm takes its statistics over all ranks. Null: each rank over its own
  // samples, and an update leaves the mean of the ranks' moving statistics in all of them.
  cluster::Communicator* statistics = nullptr;
  // The same bits for any number of ranks and lanes, both powers of two: the batch of all ranks is
  // cut into `micro_batches` parts [n * c / micro_batches, n * (c + 1) / micro_batches), each run
  // by itself, and their gradients are summed in a binary tree. Also without a communicator. A
  // graph with batch norm in training form is refused.
  bool ordered = false;
  std::int64_t micro_batches = 8;  // a power of two; ranks * lanes divides it
  // Gradients are reduced in buckets of about this size while backward runs; 0: all after it.
  std::int64_t bucket_bytes = 0;
};

struct CompileOptions {
  std::int64_t max_samples = 1;
  ReductionOptions reduction;
  enum class Convolution { kAuto, kDirect, kWinograd } convolution = Convolution::kAuto;
  // Whether a sample's result must not depend on how many are computed with it in a call:
  // algorithms are then chosen for a usual number and not for each.
  bool same_for_any_batch = false;
  // Index of an output that must be finite in all samples for the update phase to run; -1: none.
  int guard = -1;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "cpu, 2 threads, avx512_core_bf16, oneDNN 2.6.3"
  virtual compile::Capabilities capabilities() const = 0;
  virtual bool supports(DType activations) const = 0;
  // Variables for every kept value of the graph, zero-filled.
  virtual std::unique_ptr<Variables> allocate(const graph::Graph& graph) = 0;
  // `variables` must outlive the executable and hold every kept value of the graph.
  virtual std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                              const CompileOptions& options) = 0;
};

struct CpuOptions {
  int threads = 0;  // 0: all cores this process may use
  int lanes = 0;    // 0: chosen. Micro-batches run side by side, each by threads / lanes threads
  // Which of the kernels compiled for several instruction sets to use: "x86-64-v3", "x86-64-v4", or
  // "amx", which is the latter with AMX for bfloat16; the best that this processor runs when empty.
  std::string instruction_set;
  // Cores that the threads are kept on, one each, in lane order; empty: wherever the system likes.
  std::vector<int> cores;
};
std::unique_ptr<Backend> open_cpu_backend(const CpuOptions& options);

}  // namespace trainer::backend
