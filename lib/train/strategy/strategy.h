// The differences between a process that trains alone, synchronous workers, and workers with
// parameter servers.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/phase_times.h"
#include "engine/step_times.h"
#include "hooks/hooks.h"
#include "train/feature_plan.h"
#include "train/steps/step_verdict.h"

namespace trainer::train {

class Checkpointer;
class FeatureCaches;
class ParameterServers;
class StageControl;
class WorkerGroup;
struct Session;

// A loss that is not finite, of a step that updated nothing.
struct NotFinite {
  std::string where;  // the layer or parameter in which it was first seen, or ""
  std::string blame;  // the samples
  double learning_rate = 0;
};

// A step whose numbers have arrived.
struct StepOutcome {
  // Loss and accuracy are this process's share; the times are not filled in.
  hooks::Progress progress;
  std::optional<double> penalty;
  std::optional<NotFinite> not_finite;
  std::vector<backend::PhaseTimes> times;  // one a replica of this process
};

// All calls come from the loop's thread. All ranks make the collective calls in the same order; in
// a process without other ranks these return their argument. Collective calls throw PeerError when
// another rank, or a server, has gone.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Call it before any other function except is_chief() and fail(). `session` must outlive them.
  void attach(Session& session) { session_ = &session; }

  // Whether this process has the run folder, the hooks and the terminal.
  virtual bool is_chief() const { return true; }
  // The other ranks that take part in evaluation and the feature files; null when there are none.
  virtual WorkerGroup* workers() { return nullptr; }
  virtual FeatureSharing feature_sharing() const { return FeatureSharing::kAlone; }
  virtual void describe(hooks::RunInfo& info) const { static_cast<void>(info); }

  // Collective: all ranks go on from the state and variables of the chief.
  virtual void start(StageControl& stages) { static_cast<void>(stages); }

  // ---- Steps ----

  // Opens the training data at the session's step. No step may be in flight.
  virtual void open_feed(const FeatureCaches& features) = 0;
  // Drops steps that are in flight. No-op when it is not open.
  virtual void close_feed() = 0;
  // Seconds that steps have waited for data since open_feed().
  virtual double seconds_waited() const = 0;
  // How many steps may be launched before result() must be called.
  virtual int max_in_flight() const { return 1; }
  // Launches update number `step`, from 0. Returns false when it cannot be launched: the session's
  // failure says why, or a step in flight is not finite.
  virtual bool launch(std::int64_t step) = 0;
  // Waits for the oldest launched step. None when its data cannot be used (see the session's
  // failure), or when other processes made the last step of the job.
  virtual std::optional<StepOutcome> result() = 0;

  // ---- Agreement ----

  // The names of the ranks, a replica of a process each, whose times the chief knows.
  virtual std::vector<std::string> rank_names() const;
  // Collective. `times` has an entry for each of them, of which this process's are filled in; on
  // return all are.
  virtual StepVerdict agree(const StepVerdict& own, std::span<engine::RankTimes> times) {
    static_cast<void>(times);
    return own;
  }
  // The first of this process's entries.
  virtual std::size_t first_rank() const { return 0; }
  // Collective: whether any rank gives true. Returns when all have called it.
  virtual bool any_rank(bool value) { return value; }
  // Collective: returns the chief's value.
  virtual hooks::Request broadcast_from_chief(hooks::Request request) { return request; }
  virtual bool broadcast_from_chief(bool value) { return value; }
  // The tensors have the same names and shapes on all ranks.
  virtual void broadcast_from_chief(std::vector<checkpoint::Tensor>& tensors) {
    static_cast<void>(tensors);
  }
  // Takes the request of the hooks after a step; returns the part that agree() need not confirm.
  virtual hooks::Request submit(hooks::Request request) { return request; }
  // Whether a signal, or a server, asks this process to stop.
  virtual bool stop_requested() const;
  // As stop_requested(), if this process may stop without an agreement.
  virtual bool may_stop_now() const { return stop_requested(); }
  // Sets what this process is doing, for messages of other processes: "training, step 120".
  virtual void set_phase(const std::string& phase) { static_cast<void>(phase); }
  // Throws PeerError when a peer has gone.
  virtual void check() const {}

  // ---- State ----

  // Updates the session's step and the engine's variables to one full state of the job.
  virtual void pull_full_state() {}
  // Records that there is a checkpoint of the session's step.
  virtual void record_checkpoint() {}
  // After a PeerError: saves what can be saved and describes it; "" when nothing can be saved.
  virtual std::string rescue(Checkpointer& checkpointer) {
    static_cast<void>(checkpointer);
    return "";
  }
  // Adds the facts that only this strategy knows.
  virtual void describe(hooks::Finish& finish) const { static_cast<void>(finish); }
  // Tells the other processes that the run is over.
  virtual void finish(hooks::FinishReason reason) noexcept { static_cast<void>(reason); }
  // Tells the other processes what ended this one, so that they do not wait for it.
  virtual void fail(const std::exception& error) noexcept { static_cast<void>(error); }

 protected:
  Session& session() const { return *session_; }

 private:
  Session* session_ = nullptr;
};

std::unique_ptr<Strategy> make_alone();
// Synchronous workers. `group` must outlive the strategy, and the engine must be made with its
// gradients().
std::unique_ptr<Strategy> make_all_reduce(WorkerGroup& group);
// The chief of a job with parameter servers, which must outlive the strategy.
std::unique_ptr<Strategy> make_parameter_server(ParameterServers& servers);

}  // namespace trainer::train
