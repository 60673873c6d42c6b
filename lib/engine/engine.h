// A model on all devices of this process: training, evaluation and commands use the devices through
// it. `Replica` is the model on one of them.
//
// Every replica has its own backend and its own thread. A batch of n samples is divided into
// contiguous parts: replica r of R computes partition(n, R, r) or, with ordered sums,
// rank_samples() of base/numbers/sum_tree.h. Gradients are summed over the replicas, so that all
// make the same update and their parameters stay the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/open.h"
#include "base/numbers/partition.h"
#include "base/threads/thread_team.h"
#include "cluster/communicator.h"
#include "engine/replica.h"

namespace trainer::engine {

// Returns the device options of a config for one of `workers` processes that train together.
backend::DeviceOptions device_options(const config::Parallel& parallel,
                                      const backend::Platform& platform, std::int64_t workers = 1);

// Returns whether the config's replicas run on GPUs of this machine. Opens the CUDA backend.
bool uses_gpus(const config::Parallel& parallel, const backend::Platform& platform);
// Returns whether NCCL sums the gradients of the replicas of `workers` processes.
bool uses_nccl(const config::Parallel& parallel, const backend::Platform& platform,
               std::int64_t workers = 1);
// Returns how the gradients of the replicas of `workers` processes are summed, as the end of
// "gradients are summed ..."; "" with one replica.
std::string describe_sums(const config::Parallel& parallel, const backend::Platform& platform,
                          std::int64_t workers);

// The position of a process among the processes of its machine that train together, and how it
// agrees with all processes of the job on the kernels to use (DeviceOptions::Cuda::agree).
struct LocalPlace {
  int rank = 0, size = 1;
  std::function<std::string(const std::string& key, const std::string& choice)> agree = {};
};

// Opens the backends of a config's replicas. Throws DeviceError when this machine or build lacks
// what the config asks for.
std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             const backend::Platform& platform,
                                                             std::int64_t workers = 1,
                                                             const LocalPlace& place = {});

// Returns whether a layer normalises by the statistics of the batch that it trains on.
bool uses_batch_statistics(const graph::Graph& model);

// The result of a launched call, of all replicas of this process.
struct StepResult {
  double loss = 0;           // sum over the samples, without the penalty
  std::int64_t correct = 0;  // undefined where labels are not classes
  // Nothing if this process had no samples of the call.
  std::optional<double> penalty;
  // True if all losses were finite: those of all ranks if the call updates, else those of this
  // process. If false, the parameters are unchanged.
  bool finite = true;
  // True if the update was skipped because a gradient overflowed under the loss scale.
  bool skipped = false;
  bool update_not_finite = false;  // backend::CallResult::update_not_finite of some replica
  double gradient_norm = 0;        // backend::CallResult::gradient_norm
};

// What the constructor of Engine does for training with a batch that does not fit the devices.
enum class Misfit {
  kExplain,  // its error names the largest batch that fits, which it finds with further engines
  kReport    // its error has the reason alone
};

class Engine {
 public:
  // Makes one replica per backend. `workers` connects processes with equally many replicas, and
  // must outlive this object; null: this process is alone. Throws backend::DoesNotFit.
  Engine(const graph::Graph& model, const config::Config& config,
         std::vector<std::unique_ptr<backend::Backend>> backends, Use use,
         cluster::Communicator* workers = nullptr, Misfit misfit = Misfit::kExplain);
  ~Engine();

  std::int64_t count() const { return std::ssize(replicas_); }
  // All replicas have the same model, sizes and values: the first one represents them. Calls that
  // change values must be made on the engine.
  const Replica& replica(std::int64_t i = 0) const { return *replicas_[i]; }
  Replica& replica(std::int64_t i = 0) { return *replicas_[i]; }
  const backend::Backend& backend() const { return *backends_.front(); }
  const std::vector<std::unique_ptr<backend::Backend>>& backends() const { return backends_; }
  // Returns Backend::describe() of one replica, and the number of replicas.
  std::string describe() const;

  // Makes the telemetry of each device of the replicas, once; empty where devices have none. It
  // must not outlive the replicas. Throws DeviceError naming what this machine lacks for it.
  std::vector<std::unique_ptr<backend::Telemetry>> make_telemetry();

  // These call the functions of Replica on all replicas. A batch is this process's part of the
  // global batch: scalars.first_sample is the position of the part in the global batch, and
  // scalars.all_samples is the size of the global batch.
  void initialise(std::uint64_t seed);
  void write(const std::vector<checkpoint::Tensor>& tensors);
  void load(const checkpoint::TensorFile& file, const std::string& path);
  void change_frozen(const graph::Graph& model);
  // Plans and allocates for calls of the training program with `samples` samples of this process
  // and `all_samples` of all processes, so that the first such call does not. No call may be in
  // flight.
  void prepare(std::int64_t samples, std::int64_t all_samples);
  // Launches one call of the training program and returns. The memory of `batch` must stay valid
  // until its result is read.
  void launch(const HostBatch& batch, const backend::Scalars& scalars);
  // Waits for the oldest call whose result was not read.
  StepResult result();
  // Waits until the devices have read the batches of all launches, also after a failure.
  void finish_uploads() noexcept {
    for (const auto& replica : replicas_) replica->finish_uploads();
  }
  // Returns the gaps of all replicas together; see Replica::gaps().
  std::optional<backend::StreamGaps> gaps();
  // Allocates memory that the devices copy from directly. It must not outlive the replicas.
  HostAllocator host_allocator();
  // Calls launch() and result().
  StepResult step(const HostBatch& batch, const backend::Scalars& scalars) {
    launch(batch, scalars);
    return result();
  }
  // The times by phase of the call whose result was read last, one entry per replica.
  std::span<const backend::PhaseTimes> times() const { return times_; }
  // The loss of each sample of the call whose result was read last; valid until the next call.
  std::span<const float> losses();
  // Evaluates a batch and waits; logits() and evaluated_losses() then hold its results.
  void evaluate(const HostBatch& batch, std::int64_t all_samples = 0);
  // The results of the last evaluate(), in the order of its samples.
  std::span<const float> logits() const { return logits_; }
  std::span<const float> evaluated_losses() const { return evaluated_losses_; }
  // The features of the images of the last call, launched or evaluated, rows packed; valid until
  // the next call.
  const void* read_features(std::int64_t samples);

  // The moving statistics of every replica. Every call changes them, even one that does not update.
  using Statistics = std::vector<std::vector<float>>;
  Statistics statistics();
  void restore(const Statistics& statistics);

  void set_loss_scale(const backend::LossScaleState& scale);

  // The number of samples that a call may have.
  std::int64_t batch() const { return replica().batch() * count(); }
  std::int64_t evaluation_batch() const { return replica().evaluation_batch() * evaluators(); }
  backend::MemoryReport memory() const;  // the memory of all replicas together
  std::string find_not_finite(const HostBatch& batch, const backend::Scalars& scalars);

  // Throws CheckError naming the variables and the ranks, of all workers, if a variable does not
  // have the same bits on all ranks. Collective.
  void check_equal();

 private:
  void close_replicas() noexcept;
  // Runs work(index) for all replicas at once. After an error only result(), finish_uploads() and
  // the destructor may be called.
  template <class Work>
  void run(const Work& work);
  // Returns the part of a replica in a batch of `samples` of this process and `all_samples` of all
  // processes.
  Partition replica_samples(std::int64_t samples, std::int64_t all_samples,
                            std::int64_t index) const;
  // Returns the samples of a batch that are in `part`.
  HostBatch select_samples(const HostBatch& batch, const Partition& part,
                           std::int64_t label_bytes) const;
  std::int64_t evaluators() const { return evaluates_alone_ ? 1 : count(); }
  // Makes the communicators of a replica, on its thread.
  ReplicaGroup make_group(int index, bool sync);

  cluster::Communicator* workers_;
  bool evaluates_alone_;                                       // parallel.evaluate: false
  std::vector<std::unique_ptr<cluster::Communicator>> group_;  // empty: one replica, no workers
  std::vector<std::unique_ptr<cluster::Communicator>> statistics_;
  std::vector<std::unique_ptr<backend::Backend>> backends_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  ThreadTeam team_;
  // A ring of the calls whose results were not read.
  struct Launched {
    std::int64_t samples = 0, all_samples = 0;
    bool applies = false;
  };
  std::vector<Launched> launched_;
  std::uint64_t launches_ = 0, results_ = 0;
  std::int64_t last_evaluators_ = 1;  // replicas that took part in the last call
  std::int64_t last_all_samples_ = 0;
  std::vector<backend::PhaseTimes> times_;
  std::vector<float> logits_, evaluated_losses_, losses_;
  std::vector<char> features_;  // the features of all replicas
};

}  // namespace trainer::engine
