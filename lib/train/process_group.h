// The processes that train one model in step.
// Reasons: lib/decisions/train.md#processes-in-step-are-a-group.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/process/progress.h"
#include "checkpoint/tensor_file.h"
#include "cluster/communicator.h"
#include "cluster/identity.h"
#include "cluster/rendezvous.h"
#include "config/config.h"
#include "engine/engine.h"

namespace trainer::train {

// Throws ConfigError unless `who` is a chief or worker and the config can train with the number of
// its processes.
void check_workers(const config::Config& config, const cluster::Identity& who);

// Waits for all ranks of the job and returns the connection to them. Until it is given to a
// ProcessGroup, this rank may read its data for longer than parallel.timeout: the other ranks wait
// for it. Throws ConfigError when ranks differ in their cluster or version, PeerError when some do
// not connect in time. `warn` is called from any thread.
std::shared_ptr<cluster::Rendezvous> join_job(
    const cluster::Identity& who, const config::Config& config,
    const std::function<void(const std::string&)>& warn = {}, const Progress& progress = {});

// The processes that train one model in step, and this process's place among them. A process that
// trains alone, or with parameter servers, is in a group of one, in which collective calls return
// their arguments at once.
//
// Rank 0 is the chief: it alone has the run folder, the hooks and the terminal. All ranks make the
// same steps, and the same collective calls in the same order, on the loop's thread. Collective
// calls throw PeerError when another rank has gone.
class ProcessGroup {
 public:
  // Makes a group of one.
  ProcessGroup() = default;
  // Makes the group of all ranks that have joined. Collective. Throws ConfigError when they differ
  // in config. `say` gets lines for rank 0 to print.
  ProcessGroup(std::shared_ptr<cluster::Rendezvous> rendezvous, const config::Config& config,
               const backend::Platform& platform,
               const std::function<void(const std::string&)>& say);
  // Calls join_job() first.
  ProcessGroup(const cluster::Identity& who, const config::Config& config,
               const backend::Platform& platform,
               const std::function<void(const std::string&)>& say,
               const std::function<void(const std::string&)>& warn = {})
      : ProcessGroup(join_job(who, config, warn), config, platform, say) {}
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return control_ ? control_->rank() : 0; }
  int size() const { return control_ ? control_->size() : 1; }
  bool is_chief() const { return rank() == 0; }
  bool on_one_machine() const;  // true if all ranks run on one machine
  // Returns the names of the hosts of all ranks, in rank order. Only for groups of several ranks.
  std::vector<std::string> hosts() const;
  // Returns "rank 2 (worker:1 on host-b, process 71)", for messages.
  std::string describe(int rank) const;
  engine::LocalPlace place() const;

  // ---- Collective calls ----

  // Throws ConfigError naming a rank whose value is not rank 0's.
  void agree(const std::string& what, const std::string& value);
  // Does the same for several values in one round trip.
  void agree(const std::vector<std::pair<std::string, std::string>>& values);
  // Returns whether any rank gives true, when all have called it.
  bool any_rank(bool value);
  // Sums in place, element by element; all ranks get the same bits.
  void sum(std::span<double> values);
  // Returns the chief's value.
  bool broadcast_from_chief(bool value);
  void broadcast_from_chief(checkpoint::Metadata& metadata);
  // Replaces the values by the chief's; names and shapes must be equal on all ranks.
  void broadcast_from_chief(std::vector<checkpoint::Tensor>& tensors);

  // ---- Messages to the other ranks, without waiting ----

  // Calls `work`, which may take longer than parallel.timeout: the other ranks wait for it, see
  // Rendezvous::set_preparing().
  void prepare(const std::function<void()>& work);
  // Sets what this process is doing, for messages of other ranks: "training, step 120".
  void set_phase(const std::string& phase);
  // Makes all other ranks throw PeerError with this message instead of waiting for this rank. Does
  // nothing for a PeerError, which the other ranks have as well.
  void fail(const std::exception& error) noexcept;

  // The communicators for gradients, which the engine uses, and for all other calls and
  // evaluations. Null in a group of one.
  cluster::Communicator* gradients() { return gradients_.get(); }
  cluster::Communicator* control() { return control_.get(); }

 private:
  std::shared_ptr<cluster::Rendezvous> rendezvous_;
  std::unique_ptr<cluster::Communicator> gradients_, control_;
};

}  // namespace trainer::train
