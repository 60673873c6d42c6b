// A graph on the CPU: one lowered program a worker and micro-batch size, run side by side.
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
#include "backend/cpu/lowering.h"

namespace trainer::backend::cpu {

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const graph::Graph& graph, CpuVariables& variables, WorkerThreads& workers,
                Arenas& arenas, const Machine& machine, const CompileOptions& options);

  // Runs the call on the workers before it returns.
  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override;
  void prepare(std::int64_t samples, std::int64_t all_samples) override;
  Gradient gradient(Stream& stream) override;
  MemoryReport memory() const override;
  void print(std::ostream& out) const override;
  bool record(WorkRecorder* recorder) override;

 private:
  struct WorkerState {
    // Of one micro-batch, but for joint layers; with an ordered sum, of all micro-batches after the
    // last. Behind it, room for the trailer.
    Memory gradients;
    // Sums of earlier micro-batches. Ordered: number k is of 2^k micro-batches, waiting for the
    // next 2^k. As large.
    std::vector<Memory> partial;
    std::map<std::int64_t, std::unique_ptr<Lowered>> programs;
  };
  struct Call {
    const Bindings& bindings;
    const Scalars& scalars;
    std::int64_t samples;
    std::span<const WorkerShare> shares;
    int active = 0;        // workers with samples
    int first_active = 0;  // the first of them
    bool idle = false;     // no samples, but batch statistics that the other ranks wait for
    bool overlap = false;  // gradients are reduced over ranks while backward runs
  };

  void allocate_gradients();
  void allocate_partial_sums(std::span<const WorkerShare> shares);
  std::vector<std::span<float>> moving_statistics(const graph::Graph& graph) const;
  Lowered& program(int worker, std::int64_t samples);
  void find_stale(const Call& call);
  void rebuild_packed_weights(int worker, int workers);
  void prepare(Call& call);
  void prepare_sums(Call& call);
  void abort();
  StepContext context_of(int worker, const Call& call, const Lowered& lowered);
  void run_worker(int worker, const Call& call);
  void run_micro_batches(int worker, const Call& call);
  void run_micro_batch(int worker, const Call& call, std::int64_t batch);
  void run_idle(const Call& call);
  void run_steps(int worker, const Call& call, std::int64_t batch, const StepContext& context,
                 const Lowered& lowered);
  void arrive_last(int worker, const Call& call, std::int64_t batch, const Lowered& lowered);
  void copy_outputs(const Call& call, std::int64_t first, const StepContext& context,
                    const Lowered& lowered);

  void fold(int worker, const Call& call, std::int64_t batch, Slice slice);

  void write_numbers(const Bindings& bindings, const Scalars& scalars) const;
  PhaseTimes times() const;
  void lap(PhaseClock::Phase phase);  // of worker 0
  PhaseClock* step_clock();           // null where phases are not measured

  // What is left of a call after backward: executable_reduce.cpp.
  void finish_alone(int worker, const Call& call);
  void finish_with_ranks(int worker, const Call& call);
  void find_sources(const Call& call);
  JointRound round_of(int worker, const Call& call, std::int64_t batch) const;
  float* source(std::size_t worker, const Call& call) const;
  void add_roots(std::size_t worker, const Call& call);
  float* first_source(const Call& call) const;
  bool reduces(const Scalars& scalars) const;
  void write_trailer(const Call& call);
  void read_trailer();
  void update_statistics(const Call& call);

  graph::Graph graph_;
  CpuVariables& variables_;
  WorkerThreads& workers_;
  Arenas& arenas_;
  const Machine& machine_;
  CompileOptions options_;
  bool whole_batch_;  // has batch norm over the batch
  BatchShares shares_;
  std::vector<WorkerState> states_;
  UpdatePhase update_;
  bool updates_ = false;  // has an update phase
  WorkRecorder* recorder_ = nullptr;
  PhaseClock clock_;  // worker 0's; waiting for other workers counts as backward
  std::unique_ptr<Reduction> reduction_;
  Memory accumulated_;    // ordered: the sum of the calls so far, each reduced over the ranks
  bool stopped_ = false;  // by a call that was not finite: Scalars::stop_when_not_finite
  std::atomic<bool> finite_{true};  // of this call's guarded output; of all ranks' after reduction
  bool all_finite_ = true;          // of the calls since the last that did not accumulate
  cluster::Communicator* ranks_;    // that gradients are summed over; null: there is one
  cluster::Communicator* statistics_ranks_;  // that batch statistics are taken over; null likewise
  Trailer trailer_;                          // with the moving statistics that are averaged
  Barrier barrier_, active_barrier_;
  JointLayers joint_;
  GradientSources sources_;  // of the call
  GradientSources summed_;   // the one buffer that holds their sum
  std::vector<void*> exchange_;
  std::vector<double> numbers_;
  std::vector<std::byte> idle_input_;
  std::vector<PackedWeights::Entry*> stale_[2];  // by order, each once
};

}  // namespace trainer::backend::cpu
