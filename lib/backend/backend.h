// Executes graphs. A backend holds the variables of a model and compiles graphs to executables.
// Reasons: lib/decisions/backend.md#a-call-is-launched-and-its-results-are-read-later.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/collective.h"
#include "backend/device.h"
#include "backend/phase_times.h"
#include "backend/telemetry.h"
#include "backend/work_record.h"
#include "base/choices.h"
#include "base/error.h"
#include "base/host_buffer.h"
#include "cluster/communicator.h"
#include "graph/graph.h"

namespace trainer::backend {

// The elements of one trained parameter in the flat buffers, and how they are updated.
struct Segment {
  std::string parameter;
  std::int64_t offset = 0;  // the place in the flat parameter, gradient and slot buffers
  std::int64_t count = 0;
  graph::Update update;
  int slots = 0;
  bool average = false;
};

// The layout of the values that training steps change, as flat float32 buffers. Each of the buffers
// for trained parameters, first slots, second slots, ... and averages has `count` elements in the
// order of the segments, with gaps between segments. The moving statistics have no gaps.
struct Flat {
  std::vector<Segment> segments;
  std::int64_t count = 0;
  int slots = 0;
  bool average = false;
  std::int64_t statistics = 0;  // elements
};
struct FlatBuffer {
  // kRest holds the values that training does not change, which Flat does not describe.
  enum class Kind { kParameters, kSlot, kAverage, kStatistics, kRest } kind = Kind::kParameters;
  int slot = 0;
};

// The persistent values of a model on a device: parameters, statistics, optimizer slots, averages.
// The executables that were compiled with them share them. Reads and writes copy float32 values in
// logical layout from and to host memory, and wait until the device has finished the launched work.
class Variables {
 public:
  virtual ~Variables() = default;
  virtual const std::vector<graph::Value>& values() const = 0;
  virtual void read(std::string_view name, std::span<float> to) const = 0;
  virtual void write(std::string_view name, std::span<const float> from) = 0;
  // The layout of the flat buffers. The next two functions copy [first, first + size) of a buffer.
  virtual Flat flat() const = 0;
  virtual void read_flat(FlatBuffer buffer, std::int64_t first, std::span<float> to) const = 0;
  virtual void write_flat(FlatBuffer buffer, std::int64_t first, std::span<const float> from) = 0;
};

// The inputs of an update besides the parameters and slots.
struct Gradient {
  std::span<const float> values;       // flat
  std::span<const float> clip_scales;  // one per segment, of optimizer.clip_norm; empty: all 1
};

// The run-time scalars of one step.
struct Scalars {
  float learning_rate = 0;
  std::uint64_t update = 1;        // 1-based number of the update, Adam's t
  double loss_scale = 1;           // 1 / true samples of the global batch
  std::uint64_t first_sample = 0;  // position of this call's first sample in the global batch
  // Samples of the calls of all ranks together; 0: the samples of this call. Of these n, a rank has
  // samples [n * rank / size, n * (rank + 1) / size), which may be none.
  std::int64_t all_samples = 0;
  bool accumulate = false;  // add to the gradients of the calls before instead of replacing them
  bool apply = true;        // update the parameters; moving averages follow every call
  // True if a call that is not finite, or an update that is not, is the last one: later calls,
  // which may have been launched already, then change nothing and count as not finite, too.
  bool stop_when_not_finite = false;
};

// The bytes that a model takes on a device.
struct MemoryReport {
  std::int64_t variables = 0;    // parameters, statistics, slots, averages
  std::int64_t gradients = 0;    // gradients and the buffers of their sums
  std::int64_t activations = 0;  // arenas
  std::int64_t derived = 0;      // reordered and folded weights
  std::int64_t staging = 0;      // copies of batches and of results on the device
  std::int64_t tables = 0;       // constants, scalars and tables of the programs
  // Parts of the above: `slots` is the part of `variables` for the optimizer's slots and averages,
  // `workspace` the largest part of `activations` that one instruction needs beside its operands.
  std::int64_t slots = 0;
  std::int64_t workspace = 0;

  std::int64_t total() const {
    return variables + gradients + activations + derived + staging + tables;
  }
};

// The work that an instruction enqueues on a device.
struct InstructionWork {
  std::int64_t kernels = 0;        // kernels of the backend itself
  std::int64_t library_calls = 0;  // convolutions and products, each of one kernel or more
  std::int64_t copies = 0;         // copies within the memory of the device, and fills
  double bytes = 0;                // bytes of the operands, as often as kernels read and write them

  InstructionWork& operator+=(const InstructionWork& more) {
    kernels += more.kernels;
    library_calls += more.library_calls;
    copies += more.copies;
    bytes += more.bytes;
    return *this;
  }
};

// The description of an instruction of an executable.
struct InstructionInfo {
  std::string layer;
  std::string implementation;  // "conv cudnn engine 17, tensor cores, 512 KiB"
  std::int64_t workspace = 0;  // bytes it needs beside its operands
  graph::Phase phase = graph::Phase::kForward;
  DType type = DType::kFloat32;  // the element type of its first input
  double flops = 0;
  std::optional<InstructionWork> work = {};  // set if the device is only planned for
};

// The result of one call, which the device writes to host memory in stream order.
struct CallResult {
  double loss = 0;           // sum over this call's samples, without the penalty
  std::int64_t correct = 0;  // samples whose label no other class outranks
  double penalty = 0;        // the L2 penalty
  // True if the loss of every sample was finite: of this rank or, if the call updates, of all ranks
  // and accumulated calls. No rank updates if it is false.
  bool finite = true;
  // True if an update was left out because a gradient overflowed under the loss scale
  // (CompileOptions::loss_scale); the losses were finite then.
  bool skipped = false;
  // True if the update had a gradient that was not finite or left a parameter or moving statistic
  // that is not finite, although all losses were finite. Only backends in which a layer may make 0
  // of a NaN check this: lib/decisions/backend.md#the-update-checks-what-activations-hide.
  bool update_not_finite = false;
  // The L2 norm over all parameters of the gradient that this call's update was made from, with the
  // gradient of the penalty and before clipping. NaN if the call did not update here.
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
  PhaseTimes times;
};

// The state of a dynamic loss scale (CompileOptions::loss_scale).
struct LossScaleState {
  float value = 1;
  std::uint32_t good_updates = 0;  // updates without an overflow since the last change
  bool operator==(const LossScaleState&) const = default;
};

// The memory of a call's inputs and outputs, in the order of the graph. Batched values
// hold `samples` samples, rows packed, logical layout, in the value's type.
struct Bindings {
  std::int64_t samples = 0;
  std::span<const Span> inputs;
  std::span<const Span> outputs;  // an empty span: not wanted
  // Host memory that the device can write to (Backend::allocate_host), or null. The outputs that
  // CompileOptions::result_outputs names must then be wanted.
  CallResult* result = nullptr;
};

// A graph compiled for up to CompileOptions::max_samples samples per call.
class Executable {
 public:
  virtual ~Executable() = default;
  // Enqueues one call on the stream and returns. Copies bindings and scalars; the memory that the
  // spans and `result` point to must stay valid until the stream has done the call. Executables
  // that share variables must be launched on one stream.
  virtual void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) = 0;
  // Plans and allocates for calls with `samples` samples of this rank, of `all_samples` of all
  // ranks, which launch() otherwise does at the first such call. compile() has done so for
  // max_samples. Not collective; no call may be in flight.
  virtual void prepare(std::int64_t samples, std::int64_t all_samples) = 0;
  // Returns the gradient of the last call, which must not have updated (Scalars::apply), with the
  // gradients of accumulated calls, in host memory. Waits for the stream. The result is valid until
  // the next call. Not collective.
  virtual Gradient gradient(Stream& stream) = 0;
  // Copies elements [first, first + to.size()) of the flat gradient of the last call to host
  // memory: the sum over the ranks if the call updated. Waits for the stream. Not collective.
  virtual void read_gradient(Stream& stream, std::int64_t first, std::span<float> to) = 0;
  // Returns the loss scale of a graph that updates after all calls that were given to the stream,
  // and waits for them. Backends without float16 keep none.
  virtual LossScaleState loss_scale(Stream& /*stream*/) { return {}; }
  // Sets the loss scale of the calls that follow; waits for the calls before.
  virtual void set_loss_scale(const LossScaleState& /*scale*/, Stream& /*stream*/) {}
  virtual MemoryReport memory() const = 0;
  // Describes the instructions of the largest call in their order; empty if a backend has no list.
  // On a device that is only planned for, they have all the work of a call with its update.
  virtual std::vector<InstructionInfo> instructions() { return {}; }
  // Prints one line per instruction: the layer and its implementation.
  virtual void print(std::ostream& out) const = 0;
  // Records all later calls until null is passed; the recorder must live as long. Returns false if
  // the device cannot measure its work.
  virtual bool record(WorkRecorder* recorder) { return recorder == nullptr; }
};

// Defines how the gradients of several ranks are summed. Every rank makes the same calls.
struct ReductionOptions {
  // Sums gradients over the ranks; made by the same backend; null: one rank. It must outlive the
  // executable.
  Collective* gradients = nullptr;
  // A collective of the same ranks: batch norm takes its statistics over all ranks. It is
  // `gradients` where Backend::shares_collectives(), a second one elsewhere. Null: each rank takes
  // them over its own samples, and an update sets the moving statistics of all ranks to their mean.
  Collective* statistics = nullptr;
  // True if results are the same bits for any number of ranks: the batch of all ranks is cut into
  // the `micro_batches` parts of base/numbers/partition.h, each part runs by itself, and the
  // gradients are summed in the tree of base/numbers/sum_tree.h. The samples of a rank are
  // rank_samples(). Also works without a collective. compile() throws for a graph with batch norm
  // in training form.
  bool ordered = false;
  std::int64_t micro_batches = 8;  // a power of two, at least one per rank
  // With ordered sums, the largest number of samples in one call of all ranks. 0 means
  // CompileOptions::max_samples times the number of ranks.
  std::int64_t max_all_samples = 0;
  // Gradients are reduced in buckets of about this size while backward runs; 0: all after it. Ranks
  // in one process reduce after backward by default: memory has no latency to hide, and the thread
  // that reduces takes a core from the computation.
  std::int64_t bucket_bytes = 0;
};

struct CompileOptions {
  std::int64_t max_samples = 1;
  ReductionOptions reduction;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::kAuto;
  // True if a sample's result must not depend on the number of samples in its call: algorithms are
  // then chosen for one default number of samples.
  bool same_for_any_batch = false;
  // True if products of float32 numbers may be rounded to TF32, where the device has it.
  bool tf32 = false;
  // The factor of all gradients during backward, which keeps small ones from vanishing in float16.
  // Dynamic: starts at `value`, is halved (and the update left out) when a gradient overflows, and
  // is doubled after 2000 updates without an overflow.
  struct LossScale {
    float value = 1;
    bool dynamic = false;
  } loss_scale;
  // The outputs of the graph that the result of a call is computed from; -1: none.
  struct ResultOutputs {
    int loss = -1;     // [batch] float32; must be finite in all samples for the update phase to run
    int rank = -1;     // [batch] int32 of ClassRank
    int penalty = -1;  // [1] float32
  } result_outputs;
};

// The settings (DeviceOptions) that a backend uses, given or chosen. A member is empty if the
// backend has no such setting.
struct ChosenSettings {
  std::optional<std::int64_t> threads, lanes;
  std::string lanes_reason;  // the reason why there are not more lanes; "" if a lane has one thread
};

// The binding of a thread to a device or core (Backend::bind_thread()). Destroy it on that thread.
class ThreadBinding {
 public:
  virtual ~ThreadBinding() = default;
};

// Thrown if the device has too little memory for an allocation, or if its libraries do not take a
// tensor of so many elements.
class DoesNotFit : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

// One device, or one share of it. One thread at a time may call it.
class Backend {
 public:
  virtual ~Backend() = default;
  // Describes the device as the training programs compiled so far use it, for example "cpu, 2 lanes
  // x 1 thread, x86-64-v4, oneDNN 2.6.3".
  virtual std::string describe() const = 0;
  // Describes the devices of a run with `replicas` replicas, for its closing lines: "2 CPU
  // threads", "4 replicas".
  virtual std::string describe_devices(std::int64_t replicas) const {
    return std::to_string(replicas) + (replicas == 1 ? " device" : " replicas");
  }
  // Returns the settings that the training programs compiled so far use.
  virtual ChosenSettings chosen_settings() const { return {}; }
  virtual bool supports(DType activations) const = 0;
  // Returns whether training in bfloat16 is expected to be faster than in float32, or a few per
  // cent slower at most. The device alone decides, so that a choice by it is the same at every
  // start.
  virtual bool prefers_bfloat16() const = 0;
  // Returns whether the device supports CompileOptions::tf32.
  virtual bool has_tf32() const { return false; }

  // Allocates uninitialised device memory, aligned for any value. Throws DeviceError when there is
  // too little.
  virtual Buffer allocate(std::size_t bytes) = 0;
  // Allocates host memory that the device copies from and to directly (pinned, where that exists).
  virtual HostBuffer allocate_host(std::size_t bytes) = 0;
  // Returns the bytes that allocations may still take; 0 if the device has no memory of its own.
  virtual std::int64_t free_memory() const { return 0; }
  // Returns a backend that compiles as this one does, but takes no memory of the device and runs
  // nothing: its executables report what they would take. It must not outlive this one. Returns
  // null if the device has no memory of its own.
  virtual std::unique_ptr<Backend> plan_only() { return nullptr; }
  // Returns whether a Span may also point to host memory, which the device then reads in place.
  virtual bool reads_host_memory() const = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  // Returns how many calls are worth launching before the result of the first one is read, at
  // least 1. A backend whose launch() blocks returns 1.
  virtual int launches_in_flight() const = 0;
  // Prepares the calling thread for this backend's calls (its device, its core) until the result is
  // destroyed.
  virtual std::unique_ptr<ThreadBinding> bind_thread() { return nullptr; }

  // Allocates variables for every persistent value of the graph, filled with zeros.
  virtual std::unique_ptr<Variables> allocate(const graph::Graph& graph) = 0;
  // `variables` must outlive the executable and hold every persistent value of the graph.
  virtual std::unique_ptr<Executable> compile(const graph::Graph& graph, Variables& variables,
                                              const CompileOptions& options) = 0;
  // Joins the devices of the ranks of `ranks`, which must outlive the result. Collective.
  virtual std::unique_ptr<Collective> make_collective(cluster::Communicator& ranks) = 0;
  // Returns whether one collective sums an executable's gradients and its batch statistics: the
  // calls of both are made in one order.
  virtual bool shares_collectives() const { return false; }
  // Opens the readings of the device's load and power; null if the device has none. The result must
  // not outlive the backend. Throws DeviceError that names what this machine lacks for it.
  virtual std::unique_ptr<Telemetry> make_telemetry() { return nullptr; }
};

}  // namespace trainer::backend
