// The parts of a run, and the operations on them that both training loops share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hooks/hooks.h"
#include "train/loop/agreement.h"
#include "train/loop/checkpointer.h"
#include "train/loop/device_watch.h"
#include "train/loop/evaluator.h"
#include "train/loop/run_context.h"
#include "train/loop/stage_control.h"
#include "train/loop/step_clock.h"
#include "train/schedule/schedule.h"

namespace trainer::train {

// Calls in order: load(), begin(), announce(), then record() and carry_out() per step, finish().
// All are collective.
class TrainingRun {
 public:
  // `job` must outlive it.
  explicit TrainingRun(Job& job, ServerCalls calls = {});

  // ---- Start ----

  // Initialises the variables. The chief then loads the last checkpoint if the job resumes, writes
  // the config, and imports the config's weight file into a run at step 0.
  void load();
  // Begins the stage of the run's step, once all ranks have the variables. Returns the facts for
  // announce().
  hooks::RunInfo begin();
  // Starts the hooks, and saves the first checkpoint of a new run.
  void announce(hooks::RunInfo info);
  // Repeats an evaluation that was cancelled. Returns the reason if no step is left to make.
  std::optional<hooks::FinishReason> before_first_step();

  // ---- Steps ----

  bool is_over() const { return state().step >= job_.plan.total_steps || state().stopped; }
  // Records a finished step: all ranks agree on what is due after it, and the hooks get its
  // numbers. Returns what is due. Throws CheckError for a loss that is not finite. `seconds_waited`
  // is the time for which the steps have waited for data.
  DueActions record(const StepOutcome& outcome, double seconds_waited);
  // Evaluates and saves. Returns the reason if the run ends here.
  std::optional<hooks::FinishReason> carry_out(DueActions due);
  // Saves the last step and throws, because the data of a later step cannot be read.
  [[noreturn]] void stop_for_unreadable_data() {
    train::stop_for_unreadable_data(context_, checkpointer_);
  }

  // ---- End ----

  // Evaluates and saves, unless interrupted, and finishes the hooks. Completes `finish`, in which
  // the loop has set the fields of its own. The training data must be closed.
  hooks::Finish finish(hooks::FinishReason reason, hooks::Finish finish);

  RunContext& context() { return context_; }
  const RunState& state() const { return context_.state; }
  StageControl& stages() { return stages_; }
  const Schedule& schedule() const { return schedule_; }
  Checkpointer& checkpointer() { return checkpointer_; }
  StepClock& clock() { return clock_; }
  bool has_unreadable_data() const { return context_.failure.any_rank(); }
  // Returns whether this process should stop, and may do so without the agreement of other ranks.
  bool may_stop_now() const { return job_.group.size() == 1 && context_.servers.stop_requested(); }

 private:
  // Gives the hooks their saved states, and decides by these whether the run has stopped.
  void restore_hooks();
  DueActions agree(const StepOutcome& outcome, hooks::StepRecord& record);

  Job& job_;
  RunContext context_;
  StageControl stages_;
  Checkpointer checkpointer_;
  Evaluator evaluator_;
  Schedule schedule_;
  Agreement agreement_;
  StepClock clock_;
  DeviceWatch devices_;
  std::string weights_;  // describes the imported weights in one line
  bool has_classes_;
  // True if the run is over and its record has the last evaluations; set before the first step.
  bool is_recorded_ = false;
  std::int64_t skipped_updates_ = 0;
};

}  // namespace trainer::train
