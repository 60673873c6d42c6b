// This process among the processes that train one model together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "cluster/communicator.h"
#include "cluster/identity.h"
#include "cluster/rendezvous.h"
#include "config/config.h"
#include "engine/replicas.h"
#include "graph/graph.h"

namespace trainer::train {

// Throws ConfigError unless `who` is a chief or worker and the config can train with the number of
// its processes.
void check_workers(const config::Config& config, const cluster::Identity& who);

// The membership of this process in a group of synchronous workers, from construction to
// destruction. Rank 0 is the chief: it alone has the run folder, the hooks and the terminal; all
// ranks make the same steps. Ranks agree on what happens next in collective calls, which all of
// them make.
class WorkerGroup {
 public:
  // Waits for all ranks. Throws ConfigError when they differ in config or cluster, PeerError when
  // some do not connect in time. `say` gets lines for rank 0 to print, `warn` warnings; both are
  // called from any thread.
  WorkerGroup(const cluster::Identity& who, const config::Config& config, const graph::Graph& model,
              const std::function<void(const std::string&)>& say,
              const std::function<void(const std::string&)>& warn = {});
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  int rank() const { return control_->rank(); }
  int size() const { return control_->size(); }
  bool is_chief() const { return rank() == 0; }
  bool on_one_machine() const;  // whether all ranks are
  engine::LocalPlace place() const;
  // For the gradients.
  cluster::Communicator& gradients() { return *gradients_; }
  // For everything else, on the loop's thread.
  cluster::Communicator& control() { return *control_; }

  // Collective. Throws ConfigError naming a rank whose value is not rank 0's.
  void agree(const std::string& what, const std::string& value);
  // Sets what this process is doing, for messages of other ranks: "training, step 120".
  void set_phase(const std::string& phase);
  // Makes all other ranks throw PeerError with this message instead of waiting for this rank.
  void fail(const std::string& message) noexcept;

  // Collective: returns the chief's value on all ranks.
  bool broadcast_from_chief(bool value);
  void broadcast_from_chief(checkpoint::Metadata& metadata);
  // Collective: replaces the values by the chief's; names and shapes must be equal on all ranks.
  void broadcast_from_chief(std::vector<checkpoint::Tensor>& tensors);

 private:
  std::shared_ptr<cluster::Rendezvous> rendezvous_;
  std::unique_ptr<cluster::Communicator> gradients_, control_;
};

}  // namespace trainer::train
