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
#include "base/thread_team.h"
#include "cluster/communicator.h"
#include "engine/engine.h"

namespace trainer::engine {

// The CPU backends of a config's replicas. Throws DeviceError when this machine or build lacks
// what the config asks for.
// `workers`: processes that train together.
std::vector<std::unique_ptr<backend::Backend>> open_backends(const config::Config& config,
                                                             std::int64_t workers = 1);

// What the user should know of parallel.threads and parallel.lanes when this process may use fewer
// cores; "" when it has as many.
std::string core_warning(const config::Parallel& parallel);

// Whether a layer normalises by the statistics of the batch it trains on.
bool uses_batch_statistics(const graph::Graph& model);

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

  // As Engine's, on all replicas. Samples are this process's part of the batch: `scalars` are the
  // step's, first_sample being the position of the part in the global batch, and all_samples the
  // samples of the global batch.
  void initialise(std::uint64_t seed);
  void write(const std::vector<checkpoint::Tensor>& tensors);
  void load(const checkpoint::TensorFile& file, const std::string& path);
  void change_frozen(const graph::Graph& model);
  const FrozenPrefix* prefix() const { return engines_.front()->prefix(); }
  const std::string& no_prefix_reason() const { return engines_.front()->no_prefix_reason(); }
  const void* input_of(std::int64_t samples, const void* images, std::int64_t all_samples = 0);
  const void* evaluation_input_of(std::int64_t samples, const void* images,
                                  std::int64_t all_samples = 0);
  bool step(std::int64_t samples, const void* images, const void* labels,
            const backend::Scalars& scalars) {
    return step_on(samples, input_of(samples, images, scalars.all_samples), labels, scalars);
  }
  void evaluate(std::int64_t samples, const void* images, const void* labels,
                std::int64_t all_samples = 0) {
    evaluate_on(samples, evaluation_input_of(samples, images, all_samples), labels, all_samples);
  }
  bool step_on(std::int64_t samples, const void* input, const void* labels,
               const backend::Scalars& scalars);
  void evaluate_on(std::int64_t samples, const void* input, const void* labels,
                   std::int64_t all_samples = 0);

  // The moving statistics of every replica, which follow every call, also one that does not update.
  using Statistics = std::vector<std::vector<float>>;
  Statistics statistics();
  void restore(const Statistics& statistics);

  // Of the last call, in the order of its samples.
  std::span<const float> logits() const { return logits_; }
  std::span<const float> losses() const { return losses_; }
  // Of the last training call; nothing when this process had no samples in it, which others had.
  std::optional<double> penalty() const { return penalty_; }

  const graph::Graph& model() const { return engines_.front()->model(); }
  std::int64_t outputs() const { return engines_.front()->outputs(); }
  // Samples a call may have.
  std::int64_t batch() const { return engines_.front()->batch() * count(); }
  std::int64_t evaluation_batch() const {
    return engines_.front()->evaluation_batch() * evaluators();
  }
  std::vector<checkpoint::Tensor> tensors() const { return engines_.front()->tensors(); }
  std::string parameters_sha256() const { return engines_.front()->parameters_sha256(); }
  std::vector<graph::Value> variables() const { return engines_.front()->variables(); }
  backend::MemoryReport memory() const;  // of all replicas together
  Engine& engine(std::int64_t replica) { return *engines_[static_cast<std::size_t>(replica)]; }
  std::string find_not_finite(std::int64_t samples, const void* input, const void* labels,
                              const backend::Scalars& scalars);

  // Throws CheckError naming the variable and the ranks, of all workers, when a variable is not the
  // same bits on all ranks. Collective.
  void check_equal();

 private:
  // Runs work(replica) on all at once. An error ends the group: only destruction is left.
  template <class Work>
  void run(const Work& work);
  void gather(std::int64_t samples, std::int64_t replicas);
  std::int64_t evaluators() const { return evaluates_alone_ ? 1 : count(); }
  EngineGroup group_of(int replica, bool sync);  // on the replica's thread

  cluster::Communicator* workers_;
  bool evaluates_alone_;                                       // parallel.evaluate: false
  std::vector<std::unique_ptr<cluster::Communicator>> group_;  // empty: one replica, no workers
  std::vector<std::unique_ptr<cluster::Communicator>> statistics_;
  std::vector<std::unique_ptr<backend::Backend>> backends_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<int> pinned_;  // the core of each replica's thread; empty: not pinned
  ThreadTeam team_;
  std::vector<float> logits_, losses_;
  std::vector<char> input_;  // features, of all replicas
  std::optional<double> penalty_;
};

}  // namespace trainer::engine
