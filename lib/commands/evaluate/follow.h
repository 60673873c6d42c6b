// `trainer evaluate --follow`: evaluates the checkpoints of a run while another process trains it.
//
// Timing is that of Estimator's EvalSpec: nothing before start_delay_secs, and throttle_secs
// between the starts of two evaluations. What is evaluated is the newest checkpoint at that time;
// those that came and went in between are not: the first of them are named in a warning, all are
// counted at the end. Once nobody trains in the folder any more, nothing is waited for: the last
// checkpoint is always evaluated. No step is evaluated twice, not even by a follower that was
// stopped and started again.
//
// A follower that has not seen anyone train may have been started before the process that resumes
// or replaces a finished run: it calls that run done after start_delay_secs only. When a run is
// replaced (--overwrite), the follower starts anew with the config of the new run.
#pragma once

#include <cstdint>
#include <string>

#include "commands/evaluate/command.h"
#include "results/train_events.h"

namespace trainer::commands {

// Returns once the last checkpoint of a finished run is evaluated, or on a signal, and prints a
// last line. `run`: a folder that may not exist yet. Returns the exit code. Throws DataError when
// no new checkpoint came for evaluate.timeout_secs.
int follow(const EvaluateArguments& arguments, const std::string& run, const Context& context);

// The last line.
struct Followed {
  std::string run;  // as the user names it
  std::int64_t evaluations = 0;
  std::int64_t skipped = 0;  // checkpoints between the evaluated ones, and before the first
  std::int64_t step = -1;    // the last evaluated step, also by an earlier follower; -1: none
  results::FinishReason reason = results::FinishReason::kDone;
};
void fields(results::FieldVisitor& v, Followed& followed);

}  // namespace trainer::commands
