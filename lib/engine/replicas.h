// The copies of a model that share this process's part of every batch, as one: what the loop, the
// evaluation and the rest of a run see of the devices.
//
// Every replica has a backend with its share of the cores and a thread of its own. A batch of n
// samples is cut into contiguous parts: of R replicas, r has partition(n, R, r). Gradients are
// summed over the replicas, so that all make the same update; their parameters are the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/open.h"
#include "base/threads/thread_team.h"
#include "cluster/communicator.h"
#include "engine/engine.h"

namespace trainer::engine {

// What a config asks of the devices of a process, of so many that train together.
backend::DeviceOptions device_options(const config::Parallel& parallel, std::int64_t workers = 1);

// The backends of a config's replicas. Throws DeviceError when this machine or build lacks what the
// config asks for.
std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             std::int64_t workers = 1);

// Whether a layer normalises by the statistics of the batch it trains on.
bool uses_batch_statistics(const graph::Graph& model);

// The numbers of a launched call, of all replicas of this process.
struct StepResult {
  double loss = 0;           // sum over the samples, without the penalty
  std::int64_t correct = 0;  // means nothing where labels are no classes
  // Nothing when this process had no samples in the call, which others had.
  std::optional<double> penalty;
  // Of all ranks when the call updated, of this process otherwise; the parameters are unchanged
  // when it is false.
  bool finite = true;
  // Whether the update was left out because a gradient overflowed under the loss scale.
  bool skipped = false;
};

class Replicas {
 public:
  // One replica a backend. `workers` joins this process's replicas to those of others with as many;
  // null: there are none. It must outlive the replicas.
  Replicas(const graph::Graph& model, const config::Config& config,
           std::vector<std::unique_ptr<backend::Backend>> backends, Engine::Use use,
           cluster::Communicator* workers = nullptr);
  ~Replicas();

  std::int64_t count() const { return static_cast<std::int64_t>(engines_.size()); }
  // "cpu, 1 lane x 1 thread, ...", of one replica, with their number.
  std::string describe() const;
  // As Backend::describe_devices(), of so many replicas of all processes.
  std::string describe_devices(std::int64_t replicas) const {
    return backends_.front()->describe_devices(replicas);
  }

  // As Engine's, on all replicas. Samples are this process's part of the batch: `scalars` are the
  // step's, first_sample being the position of the part in the global batch, and all_samples the
  // samples of the global batch.
  void initialise(std::uint64_t seed);
  void write(const std::vector<checkpoint::Tensor>& tensors);
  void load(const checkpoint::TensorFile& file, const std::string& path);
  void change_frozen(const graph::Graph& model);
  const FrozenPrefix* prefix() const { return engines_.front()->prefix(); }
  const std::string& no_prefix_reason() const { return engines_.front()->no_prefix_reason(); }
  // Gives the devices one call of the training program and returns. `batch` must stay until its
  // result is read.
  void launch(const HostBatch& batch, const backend::Scalars& scalars);
  // Waits for the oldest call whose result was not read.
  StepResult result();
  // How many calls may be launched before result() must be called; 1 where launch() blocks.
  int launches_in_flight() const { return engines_.front()->launches_in_flight(); }
  // Memory that the devices copy from without a detour; it must not outlive the replicas.
  HostAllocator host_allocator();
  // launch() and result().
  StepResult step(const HostBatch& batch, const backend::Scalars& scalars) {
    launch(batch, scalars);
    return result();
  }
  // Of the call whose result was read last, one a sample; valid until the next call.
  std::span<const float> losses();
  // Until done: logits() and evaluated_losses() are those of the batch.
  void evaluate(const HostBatch& batch, std::int64_t all_samples = 0);
  // Of the last evaluate(), in the order of its samples.
  std::span<const float> logits() const { return logits_; }
  std::span<const float> evaluated_losses() const { return evaluated_losses_; }
  // The features of the images of the last call, launched or evaluated, rows packed; valid until
  // the next call.
  const void* read_features(std::int64_t samples);

  // The moving statistics of every replica, which follow every call, also one that does not update.
  using Statistics = std::vector<std::vector<float>>;
  Statistics statistics();
  void restore(const Statistics& statistics);

  const graph::Graph& model() const { return engines_.front()->model(); }
  std::int64_t outputs() const { return engines_.front()->outputs(); }
  // Samples a call may have.
  std::int64_t batch() const { return engines_.front()->batch() * count(); }
  std::int64_t evaluation_batch() const {
    return engines_.front()->evaluation_batch() * evaluators();
  }
  std::vector<checkpoint::Tensor> tensors() const { return engines_.front()->tensors(); }
  std::string parameters_sha256() const { return engines_.front()->parameters_sha256(); }
  std::vector<graph::Value> variable_values() const { return engines_.front()->variable_values(); }
  backend::MemoryReport memory() const;  // of all replicas together
  Engine& engine(std::int64_t replica) { return *engines_[static_cast<std::size_t>(replica)]; }
  std::string find_not_finite(const HostBatch& batch, const backend::Scalars& scalars);

  // Throws CheckError naming the variable and the ranks, of all workers, when a variable is not the
  // same bits on all ranks. Collective.
  void check_equal();

 private:
  // Runs work(replica) on all at once. An error ends the group: only destruction is left.
  template <class Work>
  void run(const Work& work);
  // The samples of a batch that are replica `replica`'s, of so many.
  HostBatch part_of(const HostBatch& batch, std::int64_t replica, std::int64_t replicas,
                    std::int64_t label_bytes) const;
  std::int64_t evaluators() const { return evaluates_alone_ ? 1 : count(); }
  EngineGroup group_of(int replica, bool sync);  // on the replica's thread

  cluster::Communicator* workers_;
  bool evaluates_alone_;                                       // parallel.evaluate: false
  std::vector<std::unique_ptr<cluster::Communicator>> group_;  // empty: one replica, no workers
  std::vector<std::unique_ptr<cluster::Communicator>> statistics_;
  std::vector<std::unique_ptr<backend::Backend>> backends_;
  std::vector<std::unique_ptr<Engine>> engines_;
  ThreadTeam team_;
  // Calls whose results were not read, in a ring: samples, and whether they update.
  std::vector<std::pair<std::int64_t, bool>> launched_;
  std::uint64_t launches_ = 0, results_ = 0;
  std::int64_t last_evaluators_ = 1;  // replicas that took part in the last call
  std::int64_t read_samples_ = 0;     // of the call whose result was read last
  std::vector<float> logits_, evaluated_losses_, losses_;
  std::vector<char> features_;  // of all replicas
};

}  // namespace trainer::engine
