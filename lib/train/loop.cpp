#include "train/loop.h"

#include <optional>
#include <utility>

#include "train/loop/start.h"
#include "train/loop/training_run.h"
#include "train/signals.h"
#include "train/steps/synchronous_steps.h"

namespace trainer::train {
namespace {

using hooks::FinishReason;

// Gives a device step n+1 before it reads the results of step n. Evaluations, checkpoints, stages
// and the end of the run are known ahead: the step after them waits. What shows only when step n is
// read (a hook's request, a signal, an interval in seconds) takes effect after the steps in flight.
// Effects thus come in the order of a loop that reads each step before it launches the next.
class Loop {
 public:
  explicit Loop(Job& job)
      : job_(job),
        signals_(job.group.is_chief()),
        run_(job),
        steps_(job.make_steps ? job.make_steps(run_.context())
                              : make_synchronous_steps(run_.context())) {}

  hooks::Finish run() {
    run_.load();
    copy_from_chief(run_.context(), run_.stages());
    run_.announce(run_.begin());
    const FinishReason reason = train();
    hooks::Finish finish;
    finish.input = steps_->describe_feed();
    finish.read_seconds = steps_->read_seconds();
    steps_->close_feed();
    return run_.finish(reason, std::move(finish));
  }

 private:
  FinishReason train() {
    if (const auto reason = run_.before_first_step()) return *reason;
    while (!run_.is_over()) {
      run_.clock().start_step();
      enter_stage();
      launch_steps();
      if (in_flight_ == 0) run_.stop_for_unreadable_data();
      read_step();
      if (in_flight_ > 0) continue;
      if (const auto reason = run_.carry_out(std::exchange(due_, {}))) return *reason;
    }
    return FinishReason::kDone;
  }

  // Freezes the layers of the next step's stage, and opens its data.
  void enter_stage() {
    const bool is_due = run_.stages().is_next_due();
    if (in_flight_ > 0 || (is_feed_open_ && !is_due)) return;
    if (is_feed_open_) steps_->close_feed();  // its features are valid in this stage only
    if (is_due) run_.stages().begin_next();
    steps_->open_feed(run_.stages().features());
    is_feed_open_ = true;
    run_.clock().reset_wait();
  }

  // Launches steps before the results of earlier steps have arrived.
  void launch_steps() {
    while (may_launch() && steps_->launch(run_.state().step + in_flight_)) ++in_flight_;
  }

  // Carries out what is due after a step before the next step is launched.
  bool may_launch() const {
    const std::int64_t launched = run_.state().step + in_flight_;
    if (run_.has_unreadable_data() || launched >= job_.plan.total_steps) return false;
    if (in_flight_ == 0) return true;
    return in_flight_ < steps_->max_in_flight() && !due_.any() && !run_.may_stop_now() &&
           !run_.schedule().is_boundary(launched);
  }

  // Takes the oldest step in flight and adds what is due after it.
  void read_step() {
    const std::optional<StepOutcome> outcome = steps_->result();
    --in_flight_;
    if (!outcome) run_.stop_for_unreadable_data();
    due_.merge(run_.record(*outcome, steps_->seconds_waited()));
  }

  Job& job_;
  SignalWatch signals_;
  TrainingRun run_;
  std::unique_ptr<Steps> steps_;
  bool is_feed_open_ = false;
  int in_flight_ = 0;  // steps that were launched and not read
  DueActions due_;     // actions that wait until no step is in flight
};

}  // namespace

hooks::Finish train(Job& job) { return Loop(job).run(); }

}  // namespace trainer::train
