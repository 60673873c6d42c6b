// `trainer evaluate --abstain`: the confidence below which the model abstains, found on the
// validation split and applied to the evaluated one.
#pragma once

#include <ostream>
#include <string>

#include "base/split.h"
#include "commands/open_model/open_model.h"
#include "commands/predict/abstain.h"
#include "commands/predict/predict.h"
#include "engine/metrics/labelled_logits.h"

namespace trainer::commands {

struct AbstentionReport {
  Abstention found;            // the result on the validation split
  double temperature = 1;      // the temperature of the probabilities
  std::string criterion;       // criterion of the class's operating point; "": none
  Split split = Split::kTest;  // the evaluated split
  Coverage coverage;           // the coverage of its samples
};

// `options` decide about the classes as for `predict`. The scores are those of the model without a
// temperature.
AbstentionReport make_abstention_report(double error, const PredictOptions& options,
                                        const engine::LabelledLogits& validation, Split split,
                                        const engine::LabelledLogits& scores);

// Stores the report in the run of the model. Returns the file, or "" for a model without a run.
std::string store_abstention(const OpenedModel& opened, bool flip, const AbstentionReport& report);

// Prints the confidence, and of both splits the share of the samples that get a class and their
// error with its 95 % interval. `stored` is the file that has them, or "".
void print_abstention(const AbstentionReport& report, const std::string& stored, std::ostream& out);
// Prints {"event":"abstention",...} as one line.
void print_abstention_json(const AbstentionReport& report, const std::string& run,
                           const std::string& stored, std::ostream& out);

}  // namespace trainer::commands
