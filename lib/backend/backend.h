// What executes graphs. A backend keeps a model's variables and turns graphs into executables.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/collective.h"
#include "backend/device.h"
#include "base/host_buffer.h"
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
// by the executables compiled with them. Read and write in logical layout, float32, from and to
// host memory; both wait until the device has done what was launched.
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
  // Whether a call that is not finite is the last: later ones, which may be on the way already,
  // then change nothing and count as not finite too.
  bool stop_when_not_finite = false;
};

struct MemoryReport {
  std::int64_t variables = 0;  // bytes of parameters, statistics, slots
  std::int64_t gradients = 0;
  std::int64_t activations = 0;  // arenas
  std::int64_t derived = 0;      // reordered and folded weights
};

// The numbers of one call, which the device writes to host memory when it gets there.
struct Numbers {
  double loss = 0;           // sum over this call's samples, without the penalty
  std::int64_t correct = 0;  // samples whose label no other class outranks
  double penalty = 0;        // the L2 penalty
  // Whether the loss was finite in every sample: of this rank, or of all ranks when the call
  // updates, with those of the calls it accumulates. No rank updates unless it was.
  bool finite = true;
  // Whether an update was left out because a gradient overflowed under the loss scale
  // (CompileOptions::loss_scale); the losses were finite then.
  bool skipped = false;
};

// Where a call finds its inputs and puts its outputs, in the order of the graph's. Batched values
// hold `samples` samples, rows packed, logical layout, in the value's type.
struct Bindings {
  std::int64_t samples = 0;
  std::span<const Span> inputs;
  std::span<const Span> outputs;  // an empty span: not wanted
  // Host memory that the device can write to (Backend::allocate_host), or null. The outputs that
  // CompileOptions::numbers names must then be wanted.
  Numbers* numbers = nullptr;
};

// A graph compiled for up to `max_samples` samples a call.
class Executable {
 public:
  virtual ~Executable() = default;
  // Gives the stream one call and returns. Bindings and scalars are copied; what the spans and
  // `numbers` point to must stay until the stream is past it. Of executables that share variables,
  // calls must be on one stream.
  virtual void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) = 0;
  // Of the last call, which did not update (Scalars::apply), and those it accumulated, in host
  // memory; waits for the stream. There must be no collective. Valid until the next call.
  virtual Gradient gradient(Stream& stream) = 0;
  virtual MemoryReport memory() const = 0;
  // One line a step: what runs, in which layout, by which implementation.
  virtual void print(std::ostream& out) const = 0;
};

// How the gradients of several ranks become one update. Every rank makes the same calls.
struct ReductionOptions {
  // Sums over the ranks, made by the same backend; null: there is one. Must outlive the executable.
  Collective* gradients = nullptr;
  // Another one of the same ranks: batch norm takes its statistics over all ranks. Null: each rank
  // over its own samples, and an update leaves the mean of the ranks' moving statistics in all of
  // them.
  Collective* statistics = nullptr;
  // The same bits for any number of ranks that is a power of two: the batch of all ranks is cut
  // into the `micro_batches` parts of base/partition.h, each run by itself, and their gradients are
  // summed in a binary tree. Also without a collective. A graph with batch norm in training form is
  // refused.
  bool ordered = false;
  std::int64_t micro_batches = 8;  // a power of two, which the ranks divide
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
  // Whether products of float32 numbers may be rounded to TF32, where the device has it.
  bool tf32 = false;
  // What gradients are multiplied by on their way through backward, so that float16 does not lose
  // the small ones. Dynamic: from `value` on, halved and the update left out when a gradient
  // overflows, doubled after 2000 updates without one.
  struct LossScale {
    float value = 1;
    bool dynamic = false;
  } loss_scale;
  // Which outputs of the graph a call's numbers are made of; -1: none.
  struct NumberOutputs {
    int loss = -1;     // [batch] float32; must be finite in all samples for the update phase to run
    int rank = -1;     // [batch] int32 of ClassRank
    int penalty = -1;  // [1] float32
  } numbers;
};

// A value that a backend chose for a key that its config left open: {"parallel.threads", "2"}.
struct ChosenSetting {
  std::string key, value;
};

// Undoes what Backend::bind_thread() did to the thread, on that thread.
class ThreadBinding {
 public:
  virtual ~ThreadBinding() = default;
};

// One device, or one share of it. All calls are made by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string describe() const = 0;  // "cpu, 2 threads, avx512_core_bf16, oneDNN 2.6.3"
  // What so many replicas of a run compute on, for its closing lines: "1 CPU(s)", "4 replicas".
  virtual std::string describe_devices(std::int64_t replicas) const {
    return std::to_string(replicas) + (replicas == 1 ? " device" : " replicas");
  }
  virtual std::vector<ChosenSetting> chosen_settings() const { return {}; }
  virtual compile::Capabilities capabilities() const = 0;
  virtual bool supports(DType activations) const = 0;
  // Whether CompileOptions::tf32 means anything.
  virtual bool has_tf32() const { return false; }

  // Memory of the device, not initialised, aligned for any value. Throws DeviceError when there is
  // not enough.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Host memory that the device copies from and to without a detour.
  virtual HostBuffer allocate_host(std::size_t bytes) = 0;
  // Whether a Span may also point to host memory, which the device then reads in place.
  virtual bool reads_host_memory() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Calls worth having on the way before the first one's numbers are read; at least 1. A backend
  // whose launch blocks has 1.
  virtual int launches_in_flight() const = 0;
  // Prepares the calling thread for this backend's calls (its device, its core) until the result is
  // destroyed.
  virtual std::unique_ptr<ThreadBinding> bind_thread() { return nullptr; }

  // Variables for every kept value of the graph, zero-filled.
  virtual std::unique_ptr<Variables> allocate(const graph::Graph& graph) = 0;
  // `variables` must outlive the executable and hold every kept value of the graph.
  virtual std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                              const CompileOptions& options) = 0;
  // The group of devices whose ranks meet in `ranks`, which must outlive it. Collective.
  virtual std::unique_ptr<Collective> make_collective(cluster::Communicator& ranks) = 0;
};

}  // namespace trainer::backend
