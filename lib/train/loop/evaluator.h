// The evaluations of a run, and the best one.
#pragma once

#include <optional>
#include <vector>

#include "hooks/hooks.h"

namespace trainer::train {

class Checkpointer;
class StageControl;
struct RunContext;

class Evaluator {
 public:
  // All must outlive it.
  Evaluator(RunContext& context, Checkpointer& checkpointer, const StageControl& stages);

  // Evaluates while the run goes on: the validation split, or the test split where there is none.
  // Returns what the hooks ask for. A signal cuts it short, and leaves evaluation_due in the
  // run's state. Collective.
  hooks::Request evaluate_between();

  // The evaluations at the end of a run, of all splits. `is_complete` is false when a signal cut
  // one short. Collective.
  struct Final {
    std::vector<hooks::Evaluation> evaluations;
    bool is_complete = true;
  };
  Final evaluate_at_end();

  // Whether the last evaluation of this process was at this step and complete.
  bool has_evaluated(std::int64_t step) const {
    return last_evaluation_ && last_evaluation_->step == step;
  }
  // For when the parameters have changed since the last evaluation.
  void forget_last() { last_evaluation_.reset(); }

 private:
  std::optional<hooks::Evaluation> evaluate(Split split);
  // Notifies the hooks; returns what they ask for.
  hooks::Request record_evaluation(const hooks::Evaluation& evaluation);
  // Of schedule.reduce_on_plateau; all ranks have the same evaluation.
  void update_rate(const hooks::Evaluation& evaluation);
  void save_if_best(const hooks::Evaluation& evaluation);

  RunContext& context_;
  Checkpointer& checkpointer_;
  const StageControl& stages_;
  std::optional<hooks::Evaluation> last_evaluation_;  // of evaluate_between()
  bool has_warned_of_loss_ = false;                   // that it is not a finite number
};

}  // namespace trainer::train
