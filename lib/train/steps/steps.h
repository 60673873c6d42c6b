// Runs the steps of a training loop whose processes train in step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/phase_times.h"
#include "hooks/hooks.h"

namespace trainer::train {

class FeatureCaches;
struct RunContext;

// A step in which a number was not finite.
struct NotFinite {
  std::string where;  // the first variable or layer that is not finite, or ""
  std::string blame;  // kLoss: the samples of the batch, for messages
  double learning_rate = 0;
  // kLoss: a loss, and the step updated nothing. kUpdate: all losses were finite, but not the
  // update (backend::CallResult::update_not_finite).
  enum class Found { kLoss, kUpdate } found = Found::kLoss;
  std::string data = {};  // kUpdate: data::find_not_finite()
};

// A step whose numbers have arrived.
struct StepOutcome {
  // Loss and accuracy are this process's share; the times are not filled in.
  hooks::StepRecord record;
  std::optional<double> penalty;
  std::optional<NotFinite> not_finite;
  std::vector<backend::PhaseTimes> times;  // one per replica of this process
};

// A queue of steps: launch() puts a step in, result() takes the oldest out. All ranks make the same
// calls in the same order, on the loop's thread; calls throw PeerError when another rank has gone.
class Steps {
 public:
  virtual ~Steps() = default;  // drops steps that are in flight

  // Opens the training data at the run's step. No step may be in flight.
  virtual void open_feed(FeatureCaches& features) = 0;
  // Drops steps that are in flight and closes the training data. No-op when it is not open.
  virtual void close_feed() = 0;
  // The seconds for which steps have waited for data since open_feed().
  virtual double seconds_waited() const = 0;
  // Returns Loader::read_seconds(); 0 while the training data is not open.
  virtual double read_seconds() const = 0;
  // Describes how training data is read ahead; "" while it is not open.
  virtual std::string describe_feed() const = 0;
  // The number of steps that may be launched before result() must be called.
  virtual int max_in_flight() const = 0;
  // Launches update number `step`, from 0. Returns false when it cannot be launched: the run's
  // read failure gives the reason, or a step in flight is not finite.
  virtual bool launch(std::int64_t step) = 0;
  // Waits for the oldest launched step. Returns nothing if its data cannot be used; see the run's
  // read failure.
  virtual std::optional<StepOutcome> result() = 0;
};

}  // namespace trainer::train
