// Makes the evaluations of a run, and keeps the best one.
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
  Evaluator(RunContext& context, Checkpointer& checkpointer, StageControl& stages);

  // Evaluates in the middle of a run: the validation split, or the test split if there is none.
  // Returns the request of the hooks. A signal cancels the evaluation and leaves evaluation_due in
  // the run's state. Collective.
  hooks::Request evaluate_between();

  // Evaluates all splits at the end of a run. `is_complete` is false if a signal cancelled an
  // evaluation. Collective.
  struct Final {
    std::vector<hooks::Evaluation> evaluations;
    bool is_complete = true;
  };
  Final evaluate_at_end();

  // Returns whether the last evaluation of this process was at this step and complete.
  bool has_evaluated(std::int64_t step) const {
    return last_evaluation_ && last_evaluation_->step == step;
  }
  // Forgets the last evaluation. Call it when the parameters have changed since.
  void forget_last() { last_evaluation_.reset(); }

 private:
  std::optional<hooks::Evaluation> evaluate(Split split);
  // Notifies the hooks and returns their request.
  hooks::Request record_evaluation(const hooks::Evaluation& evaluation);
  // Applies schedule.reduce_on_plateau; all ranks have the same evaluation.
  void update_rate(const hooks::Evaluation& evaluation);
  void save_if_best(const hooks::Evaluation& evaluation);

  RunContext& context_;
  Checkpointer& checkpointer_;
  StageControl& stages_;
  std::optional<hooks::Evaluation> last_evaluation_;  // the result of evaluate_between()
  bool has_warned_of_loss_ = false;                   // a loss was not finite
};

}  // namespace trainer::train
