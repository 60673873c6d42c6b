// `trainer evaluate --abstain`: the confidence below which the model abstains, found on the
// validation split and applied to the evaluated one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "base/split.h"
#include "engine/metrics/labelled_logits.h"
#include "results/decisions/abstain.h"
#include "results/decisions/prediction.h"

namespace trainer::results {

struct AbstentionReport {
  Abstention found;            // the result on the validation split
  double temperature = 1;      // the temperature of the probabilities
  std::string criterion;       // criterion of the class's operating point; "": none
  Split split = Split::kTest;  // the evaluated split
  Coverage coverage;           // the coverage of its samples
  std::string contradiction;   // see contradiction.h
};

// `options` decide about the classes as for `predict`. The scores are those of the model without a
// temperature.
AbstentionReport make_abstention_report(double error, const PredictOptions& options,
                                        const engine::LabelledLogits& validation, Split split,
                                        const engine::LabelledLogits& scores);

// Returns the content of kAbstentionFile. The confidence is null if the model always abstains.
nlohmann::ordered_json abstention_json(const AbstentionReport& report);

// Prints the confidence, and of both splits the share of the samples that get a class and their
// error with its 95 % interval. `stored` is the file that has them, or "".
void print_abstention(const AbstentionReport& report, const std::string& stored, std::ostream& out);

}  // namespace trainer::results
