// A graph on the CPU: a lowered program per lane and size of micro-batch; lanes run side by side.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/gradients/reduction.h"
#include "backend/cpu/gradients/update.h"
#include "backend/cpu/lanes/arenas.h"
#include "backend/cpu/lanes/batch_shares.h"
#include "backend/cpu/lanes/joint_layers.h"
#include "backend/cpu/lanes/lane_threads.h"
#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const graph::Graph& graph, CpuVariables& variables, LaneThreads& lanes,
                Arenas& arenas, const Machine& machine, const CompileOptions& options);

  // Runs the call on the lanes before it returns.
  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override;
  void prepare(std::int64_t samples, std::int64_t all_samples) override;
  Gradient gradient(Stream& stream) override;
  void read_gradient(Stream& stream, std::int64_t first, std::span<float> to) override;
  MemoryReport memory() const override;
  void print(std::ostream& out) const override;
  bool record(WorkRecorder* recorder) override;

 private:
  struct LaneState {
    // The gradients of one micro-batch without those of joint layers, and room for the trailer.
    // With an ordered sum, the gradients of all micro-batches once the last one has run.
    Memory gradients;
    // The sums of earlier micro-batches, as large as `gradients`. With an ordered sum, element k is
    // the sum of 2^k micro-batches that waits for the next 2^k.
    std::vector<Memory> partial;
    std::map<std::int64_t, std::unique_ptr<Lowered>> programs;
  };
  struct Call {
    const Bindings& bindings;
    const Scalars& scalars;
    std::int64_t samples;
    std::span<const LaneShare> shares;
    int active = 0;        // the number of lanes with samples
    int first_active = 0;  // the first lane with samples
    bool idle = false;     // no samples, but other ranks wait for batch statistics
    bool overlap = false;  // gradients are reduced over ranks while backward runs

    const LaneShare& share(int lane) const { return shares[lane]; }
  };

  void allocate_gradients();
  void allocate_partial_sums(std::span<const LaneShare> shares);
  std::vector<std::span<float>> moving_statistics() const;
  Lowered& program(int lane, std::int64_t samples);
  void find_stale(const Call& call);
  void rebuild_packed_weights(int lane, int lanes);
  void prepare(Call& call);
  void prepare_sums(Call& call);
  void abort();
  CallContext make_context(int lane, const Call& call, const Lowered& lowered);
  void run_lane(int lane, const Call& call);
  void run_micro_batches(int lane, const Call& call);
  void run_micro_batch(int lane, const Call& call, std::int64_t batch);
  void run_idle(const Call& call);
  void run_instructions(int lane, const Call& call, std::int64_t batch, const CallContext& context,
                        const Lowered& lowered);
  void arrive(int lane, const Call& call, std::int64_t batch, std::size_t bucket);
  void copy_outputs(const Call& call, std::int64_t first, const CallContext& context,
                    const Lowered& lowered);

  void accumulate_gradient(int lane, const Call& call, std::int64_t batch, Slice slice);

  bool is_update_finite() const;
  void write_result(const Bindings& bindings, const Scalars& scalars) const;
  PhaseTimes times() const;
  void lap(PhaseClock::Phase phase);  // called by lane 0
  PhaseClock* step_clock();           // null if phases are not measured

  // The rest of a call after backward is in executable_reduce.cpp.
  void finish_alone(int lane, const Call& call);
  void finish_with_ranks(int lane, const Call& call);
  void find_sources(const Call& call);
  JointBatch make_joint_batch(int lane, const Call& call, std::int64_t batch) const;
  float* source(std::size_t lane, const Call& call) const;
  void add_roots(std::size_t lane, const Call& call);
  float* first_source(const Call& call) const;
  bool reduces(const Scalars& scalars) const;
  void write_trailer(const Call& call);
  void read_trailer();
  void update_statistics(const Call& call);

  graph::Graph graph_;
  CpuVariables& variables_;
  LaneThreads& lanes_;
  Arenas& arenas_;
  const Machine& machine_;
  CompileOptions options_;
  bool whole_batch_;  // the graph has batch norm over the whole batch
  BatchShares shares_;
  std::vector<LaneState> states_;
  UpdatePhase update_;
  std::vector<std::span<float>> statistics_;  // the moving statistics that calls update
  bool updates_ = false;                      // the graph has an update phase
  WorkRecorder* recorder_ = nullptr;
  PhaseClock clock_;  // measures lane 0; its wait for other lanes counts as backward
  std::unique_ptr<Reduction> reduction_;
  Memory accumulated_;    // ordered: the sum of the calls so far, each reduced over the ranks
  bool stopped_ = false;  // true after a call that was not finite: stop_when_not_finite
  bool update_not_finite_ = false;  // CallResult::update_not_finite of this call
  std::atomic<bool> finite_{true};  // the losses of this call; of all ranks after the reduction
  bool all_finite_ = true;          // the losses since the last call that did not accumulate
  cluster::Communicator* ranks_;    // the ranks of gradient sums; null: there is one rank
  cluster::Communicator* statistics_ranks_;  // the ranks of batch statistics; null: this one
  Trailer trailer_;                          // has the moving statistics that are averaged
  // Lanes meet many times per millisecond.
  Barrier barrier_{Barrier::Waiting::kSpin};         // all lanes wait at it
  Barrier active_barrier_{Barrier::Waiting::kSpin};  // the lanes with samples wait at it
  JointLayers joint_;
  GradientSources sources_;  // the gradients of the call
  GradientSources summed_;   // the buffer that holds their sum
  bool is_summed_ = false;   // the last call has written summed_
  std::vector<void*> exchange_;
  std::vector<double> numbers_;
  std::vector<std::byte> idle_input_;
  std::vector<PackedWeights::Entry*> stale_[2];  // indexed by Entry::order; each entry once
};

}  // namespace trainer::backend::cpu
