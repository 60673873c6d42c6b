// A graph on a CUDA device: one program per number of samples, captured with the sum over the ranks
// and the update into one CUDA graph per key of a call.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "backend/cuda/executable/call_graph.h"
#include "backend/cuda/executable/fixed_io.h"
#include "backend/cuda/executable/gradient_sum.h"
#include "backend/cuda/executable/update_phase.h"
#include "backend/cuda/kernels/step/clock.h"
#include "backend/cuda/lowering.h"
#include "backend/cuda/stream.h"
#include "backend/cuda/telemetry/timed_work.h"
#include "backend/exchange.h"
#include "base/numbers/partition.h"

namespace trainer::backend::cuda {

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const graph::Graph& graph, CudaVariables& variables, Machine& machine,
                 const CompileOptions& options);

  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override;
  void prepare(std::int64_t samples, std::int64_t all_samples) override;
  Gradient gradient(Stream& stream) override;
  void read_gradient(Stream& stream, std::int64_t first, std::span<float> to) override;
  LossScaleState loss_scale(Stream& stream) override;
  void set_loss_scale(const LossScaleState& scale, Stream& stream) override;
  MemoryReport memory() const override;
  std::vector<InstructionInfo> instructions() override;
  void print(std::ostream& out) const override;
  // Recorded calls are not captured: the device waits for the host between their pieces.
  bool record(WorkRecorder* recorder) override {
    recorder_ = recorder;
    return true;
  }

 private:
  // A run of a program on samples [first, first + count) of a call.
  struct Part {
    std::int64_t first = 0, count = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Call {
    std::vector<Part> parts;
    std::vector<Span> inputs, outputs;
    std::int64_t samples = 0;
    bool accumulate = false, apply = false;
    bool idle = false;  // no samples, but batch statistics that other ranks wait for
    bool has_result = false;
    cudaStream_t stream = nullptr;
  };
  // Two calls with one key are the same work on the same memory. With several ranks the key holds
  // only numbers that all ranks have.
  using Key = std::tuple<std::vector<std::int64_t>, std::vector<std::byte*>, bool, bool, bool>;
  struct CapturedCall {
    std::int64_t calls = 0;
    std::unique_ptr<CallGraph> graph;
    std::vector<Part> parts;  // the parts of this rank if there are several
  };

  StepState read_state(CudaStream& stream) const;
  void launch_call(const Bindings& bindings, const Scalars& scalars, Stream& stream);
  void check_options() const;
  Call make_call(const Bindings& bindings, const Scalars& scalars, cudaStream_t stream) const;
  std::vector<Part> make_parts(std::int64_t samples, std::int64_t all_samples) const;
  bool is_idle(std::int64_t samples) const;
  static Key make_key(const Call& call);
  std::int64_t rank_count() const;
  std::int64_t rank() const;
  Partition leaves() const;  // the leaves of this rank in an ordered sum
  void allocate_sums();
  Program& program(std::int64_t samples);
  void make_programs(const Call& call);
  void make_fixed_io(const Call& call);
  void make_stale(const Call& call);
  std::vector<PackedWeights::Entry*> packed_entries(const Call& call);
  void run(const Call& call, std::int64_t all_samples);
  void run_recorded(const Call& call, CudaStream& stream);
  void replay(const Call& call);
  bool captures_ranks() const;
  void replay_with_ranks(const Call& call, std::int64_t all_samples);
  CapturedCall& find_captured(Key key);

  // Enqueues a whole call and what it consists of: executable_step.cpp.
  void enqueue(const Call& call);
  void run_parts(const Call& call);
  void run_part(const Call& call, const Part& part, bool first, float* gradients);
  void run_idle(const Call& call);
  void enqueue_instruction(const Instruction& instruction, const CallContext& context);
  void list_instruction(const Instruction& instruction, const CallContext& context);
  std::vector<InstructionInfo> list_call();
  double count_update_bytes(const Call& call);
  void run_instructions(const Call& call, const Program& program, const CallContext& context);
  static std::byte* input_at(const Call& call, const Part& part, std::size_t input,
                             const Port& port);
  static bool is_aligned(const std::byte* address);
  void make_copied_inputs(const Call& call);
  std::vector<std::byte*> place_inputs(const Call& call, const Part& part, const Program& program);
  void copy_outputs(const Call& call, const Part& part, bool first, const Program& program) const;
  void add_part_numbers(const Call& call, const Part& part, bool first, const Program* program);
  void move_statistics(const Call& call);
  void reduce(const Call& call);
  void reduce_bucket(std::size_t bucket, cudaStream_t stream);
  void add_earlier_calls(const Call& call);
  void decide_and_update(const Call& call);
  bool reduces(const Call& call) const;
  bool overlaps(const Call& call) const;

  // Null: calls are not recorded.
  TimedWork* timed() { return recorder_ == nullptr ? nullptr : &timed_; }
  void lap(ClockPhase phase, const Call& call) const { lap_clock(clock(), phase, call.stream); }
  StepClock* clock() const { return pointer_to<StepClock>(clock_.span()); }
  ClockSpan* bucket_spans() const { return reinterpret_cast<ClockSpan*>(clock() + 1); }
  float* root(std::size_t i);
  float* gradients() const { return pointer_to<float>(gradients_.span()); }
  float* trailer() const { return gradients() + variables_.flat_count(); }
  StepScalars* scalars() const { return pointer_to<StepScalars>(scalars_.span()); }
  StepState* state() const { return pointer_to<StepState>(state_.span()); }
  DeviceResult* result() const { return pointer_to<DeviceResult>(result_.span()); }

  graph::Graph graph_;
  CudaVariables& variables_;
  Machine& machine_;
  CompileOptions options_;
  bool updates_;           // the graph has an update phase
  bool batch_statistics_;  // the graph has batch norm in training form
  CudaCollective* ranks_;  // the ranks of gradient sums; null: there is one rank
  std::map<std::int64_t, Program> programs_;
  FixedIo fixed_io_;
  std::map<Key, CapturedCall> captured_;

  UpdatePhase update_;
  std::int64_t trailer_size_ = 0;        // floats behind the gradients
  std::int64_t trailer_statistics_ = 0;  // the moving statistics among these floats
  Buffer gradients_;                     // flat, then the trailer
  Buffer accumulated_;                   // ordered: the sum of the calls so far
  Buffer other_roots_;                   // ordered: the roots of this rank's leaves after the first
  Buffer gathered_;                      // ordered: the gradients of all ranks
  Buffer statistics_before_;             // the calls of this update moved them
  FlatBufferPool pool_;                  // buffers for the gradients of parts
  std::vector<Slice> buckets_;           // reduced while backward runs; the last one after it
  StreamHandle reduction_stream_;
  std::vector<EventHandle> bucket_events_;
  EventHandle reduced_;

  Buffer scalars_, state_, result_;
  std::vector<InstructionInfo>* listed_ =
      nullptr;  // instructions are added to it instead of enqueued
  WorkRecorder* recorder_ = nullptr;
  TimedWork timed_;
  Buffer clock_;                     // the phases of the calls, then a span of each bucket's sum
  std::uint64_t update_number_ = 0;  // the number of the call that is launched
  Buffer idle_input_;
  // Copies of inputs whose part is shorter than its program or not aligned, one per input.
  std::vector<Buffer> copied_inputs_;
  // The program of the part that was enqueued last, from which moving statistics are updated.
  const Program* last_program_ = nullptr;
  std::vector<std::byte*> pointers_;
  std::vector<float> host_gradient_, host_clip_scales_;
};

}  // namespace trainer::backend::cuda
