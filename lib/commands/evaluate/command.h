// The command `evaluate`. `train` runs it as the evaluator of a job.
#pragma once

#include <string>
#include <vector>

#include "commands/model_arguments/model_arguments.h"
#include "inference/decisions/novelty.h"
#include "results/decisions/decision_options.h"

namespace trainer::commands {

struct EvaluateArguments : ModelArguments {
  // Runs, checkpoints or configs, at least one, which are evaluated one after another. `model` is
  // ignored.
  std::vector<std::string> runs;
  // If empty: test, or validation where there is no test split. With follow, validation is first.
  std::string split;
  bool flip = false;       // true: adds the outputs for mirror images
  std::string thresholds;  // how to find the labels' thresholds: f1, sensitivity=S, ...
  std::string ensemble;    // more runs, with commas between, evaluated as a mean with the first
  bool follow = false;     // evaluates new checkpoints until the run ends
  results::DecisionOptions decisions;
  bool novelty = false;  // finds from which distance on an image shows none of the classes
  inference::NoveltyOptions novelty_options;
  bool json = false;
  bool quiet = false;
};
int execute(const EvaluateArguments& arguments, const Context& context);

}  // namespace trainer::commands
