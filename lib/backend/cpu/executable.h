// A graph on the CPU: one lowered program a worker and micro-batch size, run side by side.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/lowering.h"
#include "backend/cpu/reduction.h"
#include "backend/cpu/update.h"

namespace trainer::backend::cpu {

// Memory for activations, one arena a worker, shared by all executables of a backend: only one of
// them runs at a time.
class Arenas {
 public:
  explicit Arenas(int workers) : memory_(static_cast<std::size_t>(workers)) {}
  // At least `bytes` for this worker. Arenas handed out before stay valid.
  char* get(int worker, std::int64_t bytes);
  std::int64_t bytes() const;

 private:
  std::vector<std::vector<Memory>> memory_;
};

class CpuExecutable : public Executable {
 public:
  CpuExecutable(const graph::Graph& graph, CpuVariables& variables, WorkerThreads& workers,
                Arenas& arenas, const Machine& machine, const CompileOptions& options);

  // Runs the call on the workers before it returns.
  void launch(const Bindings& bindings, const Scalars& scalars, Stream& stream) override;
  Gradient gradient(Stream& stream) override;
  MemoryReport memory() const override;
  void print(std::ostream& out) const override;
  bool record(WorkRecorder* recorder) override;

 private:
  // A worker's share of a call: micro-batch i is samples [bounds[i], bounds[i + 1]), and may be
  // empty.
  struct WorkerShare {
    std::vector<std::int64_t> bounds{0};
    std::int64_t micro_batches() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
    std::int64_t count() const { return bounds.back() - bounds.front(); }
    std::int64_t micro_batch_first(std::int64_t i) const {
      return bounds[static_cast<std::size_t>(i)];
    }
    std::int64_t micro_batch_count(std::int64_t i) const {
      return micro_batch_first(i + 1) - micro_batch_first(i);
    }
  };
  struct WorkerState {
    // Of one micro-batch; with an ordered sum, of all micro-batches after the last. Behind it, room
    // for the trailer.
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

  void check() const;
  std::vector<std::span<float>> moving_statistics(const graph::Graph& graph) const;
  std::span<const WorkerShare> shares_of(std::int64_t samples, std::int64_t all_samples);
  std::vector<WorkerShare> split(std::int64_t samples, std::int64_t all_samples) const;
  std::vector<WorkerShare> split_ordered(std::int64_t samples, std::int64_t all_samples) const;
  Lowered& program(int worker, std::int64_t samples);
  void find_bucket_steps(Lowered& lowered) const;
  void find_stale(const Call& call);
  void rebuild_packed_weights(int worker, int workers);
  void prepare(Call& call);
  void prepare_sums(Call& call);
  void abort();
  RunContext context_of(int worker, const Call& call, const Lowered& lowered);
  void run_worker(int worker, const Call& call);
  void run_micro_batches(int worker, const Call& call);
  void run_micro_batch(int worker, const Call& call, std::int64_t batch);
  void run_idle(const Call& call);
  void run_steps(int worker, const Call& call, std::int64_t batch, const RunContext& context,
                 const Lowered& lowered);
  void arrive_last(int worker, const Call& call, std::int64_t batch, const Lowered& lowered);
  void copy_outputs(const Call& call, std::int64_t first, const RunContext& context,
                    const Lowered& lowered);

  void fold(int worker, const Call& call, std::int64_t batch, Slice slice);

  void write_numbers(const Bindings& bindings) const;
  PhaseTimes times() const;

  // What is left of a call after backward: executable_reduce.cpp.
  void finish_alone(int worker, const Call& call);
  void finish_with_ranks(int worker, const Call& call);
  void find_sources(const Call& call);
  float* source(std::size_t worker, const Call& call) const;
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
  bool whole_batch_;               // has batch norm over the batch
  std::int64_t micro_batch_size_;  // most samples a program takes
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
  // How calls of so many samples, of so many of all ranks, are cut up.
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<WorkerShare>> shares_;
  std::vector<const float*>
      sources_;  // the flat buffers that make up a call's gradient, in worker order
  std::vector<void*> exchange_;
  std::vector<double> numbers_;
  std::vector<char> idle_input_;
  std::vector<PackedWeights::Entry*> stale_[2];  // by topological order, each once
};

}  // namespace trainer::backend::cpu
